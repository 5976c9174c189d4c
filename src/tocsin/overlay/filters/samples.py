"""Which of many filters another may cover: those of which a sample, a record that matches them,
matches the other. Samples are kept in order by each column, and the shortest stretch is looked at.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any

from tocsin.geo import RADIUS_KM
from tocsin.overlay.filters.filter import Filter
from tocsin.overlay.filters.witness import witness

_SPARE_DEGREES = 1e-6


class Samples:
    """Filters of one dataset."""

    def __init__(self) -> None:
        self._numbers: dict[Filter, int] = {}
        self._filters: dict[int, Filter] = {}
        self._sampled: dict[Filter, dict[str, Any]] = {}
        self._unsampled: dict[Filter, None] = {}
        self._ordered: dict[str, list[tuple[Any, int]]] = {}
        self._null: dict[str, dict[int, None]] = {}
        self._next = 0

    def add(self, filter_: Filter) -> None:
        keys = witness(filter_)
        if keys is None:
            self._unsampled[filter_] = None
            return
        self._next += 1
        self._numbers[filter_], self._filters[self._next] = self._next, filter_
        self._sampled[filter_] = keys
        for one in filter_.constraints:
            if one.null:
                self._null.setdefault(one.column, {})[self._next] = None
            elif one.kind != "other":
                insort(self._ordered.setdefault(one.column, []), (keys[one.column], self._next))

    def remove(self, filter_: Filter) -> None:
        if filter_ in self._unsampled:
            del self._unsampled[filter_]
            return
        number, keys = self._numbers.pop(filter_), self._sampled.pop(filter_)
        del self._filters[number]
        for one in filter_.constraints:
            if one.null:
                del self._null[one.column][number]
            elif one.kind != "other":
                ordered = self._ordered[one.column]
                del ordered[bisect_left(ordered, (keys[one.column], number))]

    def perhaps_under(self, filter_: Filter) -> list[Filter]:
        """All that the filter covers, and others."""
        stretches: list[Iterable[int]] = [self._filters]
        shortest = len(self._filters)
        for column, low, high in _ranges(filter_):
            ordered = self._ordered.get(column, [])
            first = 0 if low is None else bisect_left(ordered, (low,))
            end = len(ordered) if high is None else bisect_left(ordered, (high,))
            if end - first < shortest:
                shortest = end - first
                stretches.append(number for _, number in ordered[first:end])
        for one in filter_.constraints:
            if one.null and len(self._null.get(one.column, ())) < shortest:
                shortest = len(self._null.get(one.column, ()))
                stretches.append(self._null.get(one.column, ()))
        return [*(self._filters[number] for number in stretches[-1]), *self._unsampled]


def _ranges(filter_: Filter) -> list[tuple[str, Any, Any]]:
    """Within which the key of a column lies in every record that matches."""
    found = [
        (one.column, one.ranges[0][0], one.ranges[-1][1])
        for one in filter_.constraints
        if not one.null and one.kind != "other"
    ]
    for near in filter_.nears:
        reach = math.degrees(near.km / RADIUS_KM) + _SPARE_DEGREES
        constraint = filter_.on(near.lat_column)
        scale = 10 ** (constraint.scale if constraint is not None else 0)
        found.append((near.lat_column, (near.lat - reach) * scale, (near.lat + reach) * scale))
    return found
