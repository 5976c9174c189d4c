"""What checks are made of: a case at a value of the axis, and a finding of all that could be
compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tocsin.lab.declaring.claims import Case, Finding, View
from tocsin.lab.declaring.statistics import Estimate

Cases = Callable[[View], Iterator[Case]]


def case(
    view: View,
    at: int,
    *,
    told: str,
    metric: str,
    value: Estimate,
    holds: bool,
    group: str = "",
    unitless: bool = False,
    level: bool = False,
    better: int = 0,
) -> Case:
    """A group is a place, if nothing else is said."""
    place = view.axis.told(at)
    return Case(
        group=group or place,
        told=told,
        metric=metric,
        value=value,
        holds=holds,
        at=at,
        place=place,
        unitless=unitless,
        level=level,
        better=better,
    )


def finding(
    view: View,
    policies: Sequence[str],
    metrics: Sequence[str] | dict[str, bool],
    cases: Cases,
) -> Finding:
    missing = view.lacks(policies, metrics)
    if missing:
        return Finding((), missing)
    # A place that only some of the policies were run at gives nothing to compare.
    found = tuple(one for one in cases(view) if one.value.seeds)
    if not found:
        return Finding((), "nothing to compare")
    places = all(one.group == one.place for one in found)
    return Finding(found, groups_are=view.axis.plural if places else "policies")
