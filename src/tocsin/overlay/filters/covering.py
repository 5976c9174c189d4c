"""Covering: f covers g if every record that matches g matches f. Overlap: a record may match both.

`covers` is sound always, and complete but for these (docs/reference/filters.md says the same):
`near` is compared with `near` only, in pairs, and a ball must lie a metre inside a ball with
another centre; text that is compared by order beside a suffix or a part.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.geo import HALF_WAY_ROUND_KM, distance_km
from tocsin.overlay.filters.filter import Constraint, Filter, Near
from tocsin.overlay.filters.ranges import inside, intersection, without
from tocsin.overlay.filters.texts import implies_part, implies_suffix, is_finite, texts_in

MARGIN_KM = 0.001
"""Larger than any error of the distance, which is 20 cm half way round the world."""


def covers(wide: Filter, narrow: Filter) -> bool:
    """Does every record that matches the narrow filter match the wide one?"""
    return (
        wide.dataset == narrow.dataset
        and all(
            inner is not None and _within(inner, outer) for outer, inner in _by_column(wide, narrow)
        )
        and all(any(ball_within(inner, outer) for inner in narrow.nears) for outer in wide.nears)
    )


def overlap(first: Filter, second: Filter) -> bool:
    """May a record match both? Never wrong when it says no."""
    return (
        first.dataset == second.dataset
        and all(other is None or _meet(own, other) for own, other in _by_column(first, second))
        and all(_balls_meet(own, other) for own in first.nears for other in second.nears)
    )


def _by_column(filter_: Filter, other: Filter) -> Iterator[tuple[Constraint, Constraint | None]]:
    """Each constraint of the filter with the other's on the same column."""
    others = {constraint.column: constraint for constraint in other.constraints}
    return ((constraint, others.get(constraint.column)) for constraint in filter_.constraints)


def _within(small: Constraint, large: Constraint) -> bool:
    if small.null or large.null:
        return small.null and large.null
    if not small.patterned and not large.patterned:
        return inside(small.ranges, large.ranges)
    for left in without(small.ranges, large.ranges):
        if not is_finite(left) or any(small.fits(text) for text in texts_in(left)):
            return False
    return implies_suffix(small, large.suffix) and all(
        implies_part(small, part) for part in large.contains
    )


def _meet(first: Constraint, second: Constraint) -> bool:
    if first.null or second.null:
        return first.null and second.null
    shorter, longer = sorted((first.suffix, second.suffix), key=len)
    if not longer.endswith(shorter):
        return False
    common = intersection(first.ranges, second.ranges)
    if not first.patterned and not second.patterned:
        return bool(common)
    return any(
        not is_finite(keys)
        or any(first.fits(text) and second.fits(text) for text in texts_in(keys))
        for keys in common
    )


def _same_columns(first: Near, second: Near) -> bool:
    return (first.lat_column, first.lon_column) == (second.lat_column, second.lon_column)


def ball_within(small: Near, large: Near) -> bool:
    """Is every point of the small ball in the large one?"""
    if not _same_columns(small, large):
        return False
    if large.km >= HALF_WAY_ROUND_KM:
        return True
    if (small.lat, small.lon) == (large.lat, large.lon):
        return small.km <= large.km  # the distance of a record is the same number for both
    apart = distance_km(small.lat, small.lon, large.lat, large.lon)
    return apart + small.km + MARGIN_KM <= large.km


def _balls_meet(first: Near, second: Near) -> bool:
    apart = distance_km(first.lat, first.lon, second.lat, second.lon)
    return not _same_columns(first, second) or apart <= first.km + second.km + MARGIN_KM
