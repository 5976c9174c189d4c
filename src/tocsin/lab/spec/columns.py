"""Names of columns that both those who compute points and those who draw them use."""

from __future__ import annotations


def bound_columns(metric: str) -> tuple[str, str]:
    """The columns of a metric's bound: what nobody passes, and what knowledge of the future
    reaches."""
    return f"best_{metric}", f"reached_{metric}"
