"""No page cache."""

from __future__ import annotations

from tocsin.policies.page.design import PAGE, PagePolicy, Rule, undivided
from tocsin.policies.page.lru import nothing


@PAGE.register("none")
def none(text: str) -> PagePolicy:
    """Store nothing: every request goes to the cluster."""
    return undivided(text, Rule(nothing, aborts=False), pushes=False, share=0.0)
