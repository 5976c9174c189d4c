"""Subscription-GD*-2."""

from __future__ import annotations

from tocsin.policies.page.design import BETA, PAGE, Page, PagePolicy, Rule, undivided


def frequency(page: Page) -> float:
    """s − a (delivery, equation 3); below 0 when more have asked for it than subscribed."""
    return float(page.subscriptions - page.notified - page.browsed)


@PAGE.register("sg2", BETA)
def sg2(text: str, beta: float) -> PagePolicy:
    """f = s − a: those that will still ask, if each asks once (delivery 2.2.1, SG2)."""
    return undivided(text, Rule(frequency, beta), pushes=True)
