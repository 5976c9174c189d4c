"""Subscription-GD*-1."""

from __future__ import annotations

from tocsin.policies.page.design import BETA, PAGE, Page, PagePolicy, Rule, undivided


def frequency(page: Page) -> float:
    """s + a (delivery, equation 2)."""
    return float(page.subscriptions + page.notified + page.browsed)


@PAGE.register("sg1", BETA)
def sg1(text: str, beta: float) -> PagePolicy:
    """f = s + a: many subscriptions match it, and many have asked for it (delivery 2.2.1, SG1)."""
    return undivided(text, Rule(frequency, beta), pushes=True)
