"""Dual caches."""

from __future__ import annotations

from fractions import Fraction

from tocsin.policies.page.design import (
    BETA,
    PAGE,
    PUSHED_REQUESTED,
    Page,
    PagePolicy,
    Rule,
)
from tocsin.policies.page.gdstar import accesses

LEAST_SHARE = Fraction(1, 4)
"""What each portion keeps of the cache: the other has 75 % at most (delivery 2.3.1)."""


def subscriptions(page: Page) -> float:
    """f_S of delivery, equation 5."""
    return float(page.subscriptions)


@PAGE.register("dc", BETA)
def dc(text: str, beta: float) -> PagePolicy:
    """A push portion by subscriptions, an access portion by GD*; bytes move between them, and each
    keeps a quarter (delivery 2.3.1, DC).

    Pushed pages are worth s·c/size (delivery, equation 5: no L, no β). One that is asked for moves
    to the access portion with its bytes. A push that fails takes the bytes of stale pages there.
    """
    return PagePolicy(
        text,
        Rule(subscriptions, ages=False),
        Rule(accesses, beta, aborts=False),
        layout=PUSHED_REQUESTED,
        share=0.5,
        least_share=LEAST_SHARE,
    )
