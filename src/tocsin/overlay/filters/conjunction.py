"""Conditions put together into constraints and filters, in canonical form. None: nothing can
match, so there is no such constraint."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tocsin.geo import HALF_WAY_ROUND_KM
from tocsin.overlay.filters.covering import ball_within
from tocsin.overlay.filters.filter import Constraint, Filter, Near
from tocsin.overlay.filters.ranges import EVERYTHING, intersection
from tocsin.overlay.filters.texts import implies_part, is_finite, narrowed


def both(one: Constraint, other: Constraint) -> Constraint | None:
    """What is asked of a column by two constraints together."""
    if one.null or other.null:
        return one if one.null and other.null else None
    shorter, longer = sorted((one.suffix, other.suffix), key=len)
    if not longer.endswith(shorter):
        return None
    return tidied(
        replace(
            one,
            ranges=intersection(one.ranges, other.ranges),
            suffix=longer,
            contains=one.contains + other.contains,
        )
    )


def tidied(one: Constraint) -> Constraint | None:
    """The same in canonical form."""
    if one.patterned:
        one = replace(one, ranges=narrowed(one))
        if all(is_finite(each) for each in one.ranges):
            one = replace(one, suffix="", contains=())
    parts: tuple[str, ...] = ()
    for part in sorted(set(one.contains), key=lambda part: (-len(part), part)):
        if not implies_part(replace(one, contains=parts), part):
            parts = (*parts, part)
    return replace(one, contains=tuple(sorted(parts))) if one.ranges else None


def conjunction(
    dataset: str, constraints: Iterable[Constraint], nears: Iterable[Near] = ()
) -> Filter | None:
    """All of it together. A ball that another one lies in asks for nothing more."""
    found: dict[str, Constraint] = {}
    for one in constraints:
        together = both(found[one.column], one) if one.column in found else tidied(one)
        if together is None:
            return None
        found[one.column] = together
    balls = sorted({_as_one(near) for near in nears})
    inner = tuple(
        near
        for near in balls
        if not any(ball_within(other, near) for other in balls if other != near)
    )
    ordered = tuple(found[column] for column in sorted(found))
    return Filter(dataset, ordered, inner)


def _as_one(near: Near) -> Near:
    """Balls that hold the whole world are all alike, wherever their centre is."""
    if near.km < HALF_WAY_ROUND_KM:
        return near
    return Near(near.lat_column, near.lon_column, 0.0, 0.0, HALF_WAY_ROUND_KM)


def anything(column: Constraint) -> Constraint:
    """Not NULL, and nothing else asked."""
    return replace(column, null=False, ranges=EVERYTHING, suffix="", contains=())
