"""Restrictive-Subscription-GD*-2."""

from __future__ import annotations

from tocsin.policies.page.design import BETA, PAGE, Page, PagePolicy, Rule, undivided


def frequency(page: Page) -> float:
    """max(0, s − a)."""
    return float(max(0, page.subscriptions - page.notified - page.browsed))


@PAGE.register("rsg2", BETA)
def rsg2(text: str, beta: float) -> PagePolicy:
    """f = max(0, s − a): as SG2, but only recency counts once all have asked (delivery 2.2.1)."""
    return undivided(text, Rule(frequency, beta), pushes=True)
