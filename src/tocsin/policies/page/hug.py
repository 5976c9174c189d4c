"""Hybrid-User-GD*."""

from __future__ import annotations

from tocsin.policies.page.design import BETA, PAGE, Page, PagePolicy, Rule, undivided


def frequency(page: Page) -> float:
    """a_NS + max(0, s − a_S) (delivery, equation 4): its second part is never below 0."""
    return float(page.browsed + max(0, page.subscriptions - page.notified))


@PAGE.register("hug", BETA)
def hug(text: str, beta: float) -> PagePolicy:
    """f = a_NS + max(0, s − a_S): subscribers ask once, browsers go on (delivery 2.2.2, HUG)."""
    return undivided(text, Rule(frequency, beta), pushes=True)
