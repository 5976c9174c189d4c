"""Least recently used."""

from __future__ import annotations

from tocsin.policies.page.design import PAGE, Page, PagePolicy, Rule, undivided


def nothing(page: Page) -> float:
    """All pages are worth the same, so that the order in which values were set decides."""
    return 0.0


@PAGE.register("lru")
def lru(text: str) -> PagePolicy:
    """Store what is asked for; what was asked for longest ago leaves first. Nothing is pushed."""
    return undivided(text, Rule(nothing, aborts=False), pushes=False)
