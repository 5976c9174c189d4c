"""GreedyDual-Size-Frequency."""

from __future__ import annotations

from tocsin.policies.page.design import PAGE, PagePolicy, Rule, undivided
from tocsin.policies.page.gdstar import accesses


@PAGE.register("gdsf")
def gdsf(text: str) -> PagePolicy:
    """GD* with β = 1, as the world's proxies have it (Arlitt et al. 2000)."""
    return undivided(text, Rule(accesses, aborts=False), pushes=False)
