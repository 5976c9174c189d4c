"""Covering: f covers g if every record that matches g matches f. And overlap: may one match both?

`covers` is sound always, and complete but for these (docs/reference/filters.md says the same):
`near` is compared with `near` only, one with one, and a ball must lie inside another with another
centre by a metre; text that is compared by order beside a suffix or a part.
"""

from __future__ import annotations

from tocsin.geo import HALF_WAY_ROUND_KM, distance_km
from tocsin.overlay.filters.filter import Constraint, Filter, Near
from tocsin.overlay.filters.ranges import inside, intersection, without
from tocsin.overlay.filters.texts import implies_part, implies_suffix, is_finite, texts_in

MARGIN_KM = 0.001
"""Larger than any error of the distance, which is 20 cm half way round the world."""


def covers(one: Filter, other: Filter) -> bool:
    """Does every record that matches the other match this one?"""
    if one.dataset != other.dataset:
        return False
    theirs = {each.column: each for each in other.constraints}
    for mine in one.constraints:
        there = theirs.get(mine.column)
        if there is None or not _within(there, mine):
            return False
    return all(any(ball_within(there, near) for there in other.nears) for near in one.nears)


def overlap(one: Filter, other: Filter) -> bool:
    """May a record match both? Never wrong when it says no."""
    if one.dataset != other.dataset:
        return False
    theirs = {each.column: each for each in other.constraints}
    for mine in one.constraints:
        there = theirs.get(mine.column)
        if there is not None and not _meet(mine, there):
            return False
    return all(_balls_meet(near, there) for near in one.nears for there in other.nears)


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


def _meet(one: Constraint, other: Constraint) -> bool:
    if one.null or other.null:
        return one.null and other.null
    shorter, longer = sorted((one.suffix, other.suffix), key=len)
    if not longer.endswith(shorter):
        return False
    common = intersection(one.ranges, other.ranges)
    if not one.patterned and not other.patterned:
        return bool(common)
    return any(
        not is_finite(each) or any(one.fits(text) and other.fits(text) for text in texts_in(each))
        for each in common
    )


def _same_columns(one: Near, other: Near) -> bool:
    return (one.lat_column, one.lon_column) == (other.lat_column, other.lon_column)


def ball_within(small: Near, large: Near) -> bool:
    """Is every point of the one in the other?"""
    if not _same_columns(small, large):
        return False
    if large.km >= HALF_WAY_ROUND_KM:
        return True
    if (small.lat, small.lon) == (large.lat, large.lon):
        return small.km <= large.km  # the distance of a record is the same number for both
    apart = distance_km(small.lat, small.lon, large.lat, large.lon)
    return apart + small.km + MARGIN_KM <= large.km


def _balls_meet(one: Near, other: Near) -> bool:
    apart = distance_km(one.lat, one.lon, other.lat, other.lon)
    return not _same_columns(one, other) or apart <= one.km + other.km + MARGIN_KM
