"""What a figure shows: which columns of the points, for which policies."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Dash = Literal["solid", "dashed", "dotted"]
Drawn = Literal["curve", "points", "line"]  # a line with marks, marks alone, a line alone


class Series(Struct, frozen=True, kw_only=True):
    """One column of the points against the experiment's axis, a curve for each policy."""

    metric: str
    label: str = ""  # told after the policy's name
    dash: Dash = "solid"
    drawn: Drawn = "curve"
    policies: tuple[str, ...] | None = None  # None: all that were run
    pooled: bool = False  # one curve over all policies
    against: str = ""  # draw the difference to this policy, paired by seed


class Figure(Struct, frozen=True, kw_only=True):
    """Curves over the experiment's axis; or, `at` one value of it, the policies side by side."""

    name: str  # of its files
    title: str
    axis: str  # what the y axis shows, with its unit
    series: tuple[Series, ...]
    variants: tuple[str, ...] | None = None  # None: all
    unit: float = 1.0  # the points' values are divided by it
    one_scale: bool = False  # variants can be compared: they share the y axis
    allowed: bool = False  # draw the values of the axis themselves
    at: int | None = None
    bound: str = ""  # the metric whose proven bound is drawn, where the points have it


def curves(
    name: str,
    title: str,
    axis: str,
    metric: str,
    *,
    policies: tuple[str, ...] | None = None,
    against: str = "",
    **look: Any,
) -> Figure:
    """A figure of one metric; `look` are further fields of it."""
    series = (Series(metric=metric, policies=policies, against=against),)
    return Figure(name=name, title=title, axis=axis, series=series, **look)
