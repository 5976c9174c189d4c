"""GreedyDual*, the paper's baseline."""

from __future__ import annotations

from tocsin.policies.page.design import BETA, PAGE, Page, PagePolicy, Rule, undivided


def accesses(page: Page) -> float:
    """f: accesses since it was stored. It is forgotten when the page is evicted."""
    return float(page.accesses)


@PAGE.register("gdstar", BETA)
def gdstar(text: str, beta: float) -> PagePolicy:
    """Store what is asked for; f is its accesses since then (delivery 2.1, GD*). Nothing is pushed.

    On a miss the smallest values leave until the page fits, and L is the value of the last one
    (delivery, equation 1); the new page's V is made with the new L.
    """
    return undivided(text, Rule(accesses, beta, aborts=False), pushes=False)
