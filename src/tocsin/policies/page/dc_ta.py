"""Dual caches, divided by the type of access."""

from __future__ import annotations

from tocsin.policies.page.design import (
    BETA,
    NOTIFIED_BROWSED,
    PAGE,
    Page,
    PagePolicy,
    Rule,
)
from tocsin.policies.page.gdstar import accesses
from tocsin.policies.registry import Parameter

PHI = Parameter("phi", 0.5, at_most=1.0)


def frequency(page: Page) -> float:
    """max(0, s − a_S): SG2 over subscribers alone (delivery 2.3.2), never below 0."""
    return float(max(0, page.subscriptions - page.notified))


@PAGE.register("dc-ta", PHI, BETA)
def dc_ta(text: str, phi: float, beta: float) -> PagePolicy:
    """A share φ for pushes and notification-driven accesses, with f = max(0, s − a_S); the rest for
    browsing, by GD*. Each has its own L, and may only read the other (delivery 2.3.2, DC-TA).

    ODT is DC-TA with the best φ of 0, 0.25, 0.5, 0.75 and 1 (delivery 4.3.2).
    """
    return PagePolicy(
        text,
        Rule(frequency, beta),
        Rule(accesses, beta, aborts=False),
        layout=NOTIFIED_BROWSED,
        share=phi,
    )
