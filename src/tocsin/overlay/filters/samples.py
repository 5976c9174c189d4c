"""Which of many filters another filter may cover: those with a sample (a record that matches them)
that the other matches. Samples are sorted by each column, and only the shortest slice is examined.
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
        for constraint in filter_.constraints:
            if constraint.null:
                self._null.setdefault(constraint.column, {})[self._next] = None
            elif constraint.kind != "other":
                insort(
                    self._ordered.setdefault(constraint.column, []),
                    (keys[constraint.column], self._next),
                )

    def remove(self, filter_: Filter) -> None:
        if filter_ in self._unsampled:
            del self._unsampled[filter_]
            return
        number, keys = self._numbers.pop(filter_), self._sampled.pop(filter_)
        del self._filters[number]
        for constraint in filter_.constraints:
            if constraint.null:
                del self._null[constraint.column][number]
            elif constraint.kind != "other":
                ordered = self._ordered[constraint.column]
                del ordered[bisect_left(ordered, (keys[constraint.column], number))]

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
        for constraint in filter_.constraints:
            if constraint.null and len(self._null.get(constraint.column, ())) < shortest:
                shortest = len(self._null.get(constraint.column, ()))
                stretches.append(self._null.get(constraint.column, ()))
        return [*(self._filters[number] for number in stretches[-1]), *self._unsampled]


def _ranges(filter_: Filter) -> list[tuple[str, Any, Any]]:
    """For each column, the range of its keys in all records that match."""
    hulls = [
        (constraint.column, constraint.ranges[0][0], constraint.ranges[-1][1])
        for constraint in filter_.constraints
        if not constraint.null and constraint.kind != "other"
    ]
    for near in filter_.nears:
        reach = math.degrees(near.km / RADIUS_KM) + _SPARE_DEGREES
        scale = filter_.denominator(near.lat_column)
        hulls.append((near.lat_column, (near.lat - reach) * scale, (near.lat + reach) * scale))
    return hulls
