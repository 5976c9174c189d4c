"""A filter: a conjunction over the columns of one dataset, in canonical form.

Each column has at most one constraint, which is a set of keys. Equivalent filters are equal, with
the exceptions that `covering` lists. A record maps columns to stored values; an absent column is
NULL, and no comparison holds for NULL. `sql` reads filters from text and knows the columns'
types; a constraint contains all that is needed to match it and to write it as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from tocsin.geo import distance_km
from tocsin.overlay.filters.keys import CONVERT, Key, Kind, count_keys
from tocsin.overlay.filters.ranges import EVERYTHING, Ranges, holds

Record = Mapping[str, Any]

FARTHEST_DEGREES = 1e6
"""Larger coordinates are near nothing: floating point has no digits left for the angle."""


class Constraint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The condition on one column: it is NULL, or its key lies in `ranges`, ends with `suffix` and
    contains each of `contains`."""

    column: str
    kind: Kind
    scale: int = 0  # of a decimal
    null: bool = False
    ranges: tuple[tuple[Key | None, Key | None], ...] = EVERYTHING
    suffix: str = ""
    contains: tuple[str, ...] = ()

    @property
    def patterned(self) -> bool:
        return bool(self.suffix or self.contains)

    @property
    def size(self) -> float:
        """How many keys it allows, patterns aside."""
        ends = [end for range_ in self.ranges for end in range_]
        if self.null or self.kind == "other" or None in ends:
            return float("inf")
        return sum(count_keys(self.kind, low, high) for low, high in self.ranges)

    @property
    def points(self) -> tuple[Key, ...]:
        """The keys it allows, if each is a range by itself; else none."""
        return tuple(low for low, _ in self.ranges) if self.size == len(self.ranges) else ()  # type: ignore[misc]

    def fits(self, text: str) -> bool:
        """Does a text have the patterns?"""
        return text.endswith(self.suffix) and all(part in text for part in self.contains)


class Near(Struct, frozen=True, order=True):
    """The record's point is at most `km` away from the given one."""

    lat_column: str
    lon_column: str
    lat: float
    lon: float
    km: float


class Filter(Struct, frozen=True, cache_hash=True, omit_defaults=True):
    """Constraints are ordered by column. A column of a `near` has a constraint, too: not NULL."""

    dataset: str
    constraints: tuple[Constraint, ...] = ()
    nears: tuple[Near, ...] = ()

    def on(self, column: str) -> Constraint | None:
        for constraint in self.constraints:
            if constraint.column == column:
                return constraint
        return None

    def denominator(self, column: str) -> int:
        """A column's key divided by this is its value."""
        constraint = self.on(column)
        return 10**constraint.scale if constraint is not None else 1


Test = Callable[[Record], bool]


def keys_of(filter_: Filter, record: Record) -> dict[str, Any]:
    """The keys of the columns that the filter looks at."""
    keys = {}
    for constraint in filter_.constraints:
        value = record.get(constraint.column)
        convert = CONVERT.get(constraint.kind)
        keys[constraint.column] = value if convert is None or value is None else convert(value)
    return keys


def matches(filter_: Filter, record: Record) -> bool:
    return matcher(filter_)(record)


def matcher(filter_: Filter) -> Test:
    """The filter as one function of a record."""
    asked = tests(filter_)
    if not any(constraint.kind in CONVERT for constraint in filter_.constraints):
        return lambda record: all(test(record) for test in asked)

    def converting(record: Record) -> bool:
        keys = keys_of(filter_, record)
        return all(test(keys) for test in asked)

    return converting


def tests(filter_: Filter) -> list[Test]:
    """The filter as functions of a record's keys; it matches if all are true."""
    return [
        *(test_of(constraint) for constraint in filter_.constraints),
        *(near_test(near, filter_) for near in filter_.nears),
    ]


def test_of(constraint: Constraint) -> Test:
    if constraint.null:
        return partial(_is_null, constraint.column)
    if constraint.ranges == EVERYTHING and not constraint.patterned:
        return partial(_is_not_null, constraint.column)
    if constraint.patterned:
        return partial(_fits, constraint)
    if len(constraint.ranges) == 1:
        return partial(_is_between, constraint.column, *constraint.ranges[0])
    return partial(_is_in, constraint.column, constraint.ranges)


def near_test(near: Near, filter_: Filter) -> Test:
    return partial(_is_near, near, *scales(near, filter_))


def scales(near: Near, filter_: Filter) -> tuple[int, int]:
    """What the keys of the two columns are divided by to get degrees."""
    return filter_.denominator(near.lat_column), filter_.denominator(near.lon_column)


def _is_null(column: str, keys: Record) -> bool:
    return keys.get(column) is None


def _is_not_null(column: str, keys: Record) -> bool:
    return keys.get(column) is not None


def _is_between(column: str, low: Any, high: Any, keys: Record) -> bool:
    key = keys.get(column)
    return key is not None and (low is None or low <= key) and (high is None or key < high)


def _is_in(column: str, ranges: Ranges, keys: Record) -> bool:
    key = keys.get(column)
    return key is not None and holds(ranges, key)


def _fits(constraint: Constraint, keys: Record) -> bool:
    key = keys.get(constraint.column)
    return key is not None and constraint.fits(key) and holds(constraint.ranges, key)


def _is_near(near: Near, lat_scale: int, lon_scale: int, keys: Record) -> bool:
    lat, lon = keys.get(near.lat_column), keys.get(near.lon_column)
    if lat is None or lon is None:
        return False
    lat, lon = lat / lat_scale, lon / lon_scale
    if abs(lat) > FARTHEST_DEGREES or abs(lon) > FARTHEST_DEGREES:
        return False
    return distance_km(near.lat, near.lon, lat, lon) <= near.km
