"""Conjunctions of conditions, as constraints and filters in canonical form. The result is None if
no record can match."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tocsin.geo import HALF_WAY_ROUND_KM
from tocsin.overlay.filters.covering import ball_within
from tocsin.overlay.filters.filter import Constraint, Filter, Near
from tocsin.overlay.filters.ranges import EVERYTHING, intersection
from tocsin.overlay.filters.texts import implies_part, is_finite, narrowed


def both(first: Constraint, second: Constraint) -> Constraint | None:
    """The conjunction of two constraints on the same column."""
    if first.null or second.null:
        return first if first.null and second.null else None
    shorter, longer = sorted((first.suffix, second.suffix), key=len)
    if not longer.endswith(shorter):
        return None
    return tidied(
        replace(
            first,
            ranges=intersection(first.ranges, second.ranges),
            suffix=longer,
            contains=first.contains + second.contains,
        )
    )


def tidied(constraint: Constraint) -> Constraint | None:
    """The constraint in canonical form."""
    if constraint.patterned:
        constraint = replace(constraint, ranges=narrowed(constraint))
        if all(is_finite(keys) for keys in constraint.ranges):
            constraint = replace(constraint, suffix="", contains=())
    parts: tuple[str, ...] = ()
    for part in sorted(set(constraint.contains), key=lambda part: (-len(part), part)):
        if not implies_part(replace(constraint, contains=parts), part):
            parts = (*parts, part)
    return replace(constraint, contains=tuple(sorted(parts))) if constraint.ranges else None


def conjunction(
    dataset: str, constraints: Iterable[Constraint], nears: Iterable[Near] = ()
) -> Filter | None:
    """The filter of all conditions. A ball that contains another ball is redundant."""
    by_column: dict[str, Constraint] = {}
    for constraint in constraints:
        earlier = by_column.get(constraint.column)
        combined = tidied(constraint) if earlier is None else both(earlier, constraint)
        if combined is None:
            return None
        by_column[constraint.column] = combined
    balls = sorted({_canonical_ball(near) for near in nears})
    inner = tuple(
        near
        for near in balls
        if not any(ball_within(other, near) for other in balls if other != near)
    )
    ordered = tuple(by_column[column] for column in sorted(by_column))
    return Filter(dataset, ordered, inner)


def _canonical_ball(near: Near) -> Near:
    """All balls that contain the whole world become the same ball, whatever their centre."""
    if near.km < HALF_WAY_ROUND_KM:
        return near
    return Near(near.lat_column, near.lon_column, 0.0, 0.0, HALF_WAY_ROUND_KM)


def anything(column: Constraint) -> Constraint:
    """Not NULL, and no other condition."""
    return replace(column, null=False, ranges=EVERYTHING, suffix="", contains=())
