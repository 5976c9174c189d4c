"""A filter: a conjunction over the columns of one dataset, in canonical form.

Each column has at most one constraint: what is asked of it in all, as a set of keys. Filters that
ask the same are equal, but for what `covering` says. A record is a mapping of columns to kept
values; what is not there is NULL, and no comparison holds for NULL. `sql` reads filters from
text and knows the columns' types; here a constraint brings all that is needed to match and tell it.
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
"""Coordinates beyond are near nothing: the arithmetic of angles has no digits left for them."""


class Constraint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of one column: to be NULL, or to have a key in `ranges`, end with `suffix` and
    contain each of `contains`."""

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
        ends = [end for one in self.ranges for end in one]
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
        for one in self.constraints:
            if one.column == column:
                return one
        return None


Test = Callable[[Record], bool]


def keys_of(filter_: Filter, record: Record) -> dict[str, Any]:
    """The keys of the columns that the filter looks at."""
    found = {}
    for one in filter_.constraints:
        value = record.get(one.column)
        convert = CONVERT.get(one.kind)
        found[one.column] = value if convert is None or value is None else convert(value)
    return found


def matches(filter_: Filter, record: Record) -> bool:
    return matcher(filter_)(record)


def matcher(filter_: Filter) -> Test:
    """The filter as one function of a record."""
    asked = tests(filter_)
    if not any(one.kind in CONVERT for one in filter_.constraints):
        return lambda record: all(test(record) for test in asked)

    def converting(record: Record) -> bool:
        keys = keys_of(filter_, record)
        return all(test(keys) for test in asked)

    return converting


def tests(filter_: Filter) -> list[Test]:
    """The filter as functions of a record's keys; it matches if all are true."""
    return [
        *(test_of(one) for one in filter_.constraints),
        *(near_test(n, filter_) for n in filter_.nears),
    ]


def test_of(one: Constraint) -> Test:
    if one.null:
        return partial(_is_null, one.column)
    if one.ranges == EVERYTHING and not one.patterned:
        return partial(_is_not_null, one.column)
    if one.patterned:
        return partial(_fits, one)
    if len(one.ranges) == 1:
        return partial(_is_between, one.column, *one.ranges[0])
    return partial(_is_in, one.column, one.ranges)


def near_test(near: Near, filter_: Filter) -> Test:
    scales = [
        10 ** (found.scale if (found := filter_.on(column)) else 0)
        for column in (near.lat_column, near.lon_column)
    ]
    return partial(_is_near, near, scales[0], scales[1])


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


def _fits(one: Constraint, keys: Record) -> bool:
    key = keys.get(one.column)
    return key is not None and one.fits(key) and holds(one.ranges, key)


def _is_near(near: Near, lat_scale: int, lon_scale: int, keys: Record) -> bool:
    lat, lon = keys.get(near.lat_column), keys.get(near.lon_column)
    if lat is None or lon is None:
        return False
    lat, lon = lat / lat_scale, lon / lon_scale
    if abs(lat) > FARTHEST_DEGREES or abs(lon) > FARTHEST_DEGREES:
        return False
    return distance_km(near.lat, near.lon, lat, lon) <= near.km
