"""Which of many filters match a record, without looking at each of them.

Filters are grouped by shape: the columns that must have one of a few keys, and one further
condition. A record's keys are looked up in each group, which yields only filters that agree with
them; the other conditions are then tested. So the number of lookups is the number of shapes, and
does not grow with the number of filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Protocol

from msgspec import Struct

from tocsin.overlay.filters.filter import (
    Constraint,
    Filter,
    Record,
    Test,
    near_test,
    scales,
    test_of,
)
from tocsin.overlay.filters.intervals import Intervals
from tocsin.overlay.filters.keys import CONVERT, end_of_prefix
from tocsin.overlay.filters.places import Beginnings, Cells, Ends, Parts, Places
from tocsin.overlay.filters.ranges import EVERYTHING

MOST_KEYS = 4
"""Of a column that is looked up; the filter stands under each of them."""
MOST_PLACES = 16
"""Under which a filter stands for all its columns together."""


class Shape(Struct, frozen=True):
    """What the filters of a group have in common."""

    columns: tuple[str, ...]  # looked up
    further: str = ""
    of: tuple[Any, ...] = ()  # what the further condition is about


class _Entry:
    __slots__ = ("filter", "tests")

    def __init__(self, filter_: Filter, tests: list[Test]) -> None:
        self.filter = filter_
        self.tests = tests  # the conditions that the lookup does not settle


class _Plan(Struct, frozen=True):
    """How one filter is kept."""

    shape: Shape
    heads: list[tuple[Any, ...]]  # the keys it is looked up by
    condition: Any  # the further one
    tests: list[Test]


class FilterIndex:
    """Filters, each once. A record is a mapping of columns to kept values."""

    def __init__(self) -> None:
        self._plans: dict[Filter, _Plan] = {}
        self._groups: dict[Shape, _Group] = {}
        self._kinds: dict[str, Callable[[Any], Any]] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[Filter]:
        return iter(self._plans)

    def __contains__(self, filter_: object) -> bool:
        return filter_ in self._plans

    def add(self, filter_: Filter) -> None:
        if filter_ in self._plans:
            return
        plan = self._plans[filter_] = _plan(filter_)
        group = self._groups.get(plan.shape)
        if group is None:
            group = self._groups[plan.shape] = _group(plan.shape)
        group.add(plan, _Entry(filter_, plan.tests))
        for constraint in filter_.constraints:
            if constraint.kind in CONVERT:
                self._kinds[constraint.column] = CONVERT[constraint.kind]

    def remove(self, filter_: Filter) -> None:
        plan = self._plans.pop(filter_, None)
        if plan is None:
            return
        group = self._groups[plan.shape]
        group.remove(plan, filter_)
        if group.empty:
            del self._groups[plan.shape]

    def match(self, record: Record) -> list[Filter]:
        if not self._kinds:
            return self.match_keys(record)
        keys = dict(record)
        for column, convert in self._kinds.items():
            if keys.get(column) is not None:
                keys[column] = convert(keys[column])
        return self.match_keys(keys)

    def match_keys(self, keys: Record) -> list[Filter]:
        """By keys instead of values, see `keys.CONVERT`."""
        matching = []
        for group in self._groups.values():
            for entry in group.find(keys):
                for test in entry.tests:
                    if not test(keys):
                        break
                else:
                    matching.append(entry.filter)
        return matching


class _Group(Protocol):
    @property
    def empty(self) -> bool: ...

    def add(self, plan: _Plan, entry: _Entry) -> None: ...

    def remove(self, plan: _Plan, filter_: Filter) -> None: ...

    def find(self, keys: Record) -> Iterable[_Entry]: ...


class _Hashed:
    """Found by the keys of columns, and perhaps by places."""

    def __init__(self, columns: tuple[str, ...], places: Places | None) -> None:
        self._columns = columns
        self._places = places
        self._there: dict[Any, dict[Filter, _Entry]] = {}

    @property
    def empty(self) -> bool:
        return not self._there

    def _under(self, plan: _Plan, *, leaves: bool = False) -> Iterable[Any]:
        if self._places is None:
            return plan.heads
        return product(plan.heads, self._places.of(plan.condition, leaves=leaves))

    def add(self, plan: _Plan, entry: _Entry) -> None:
        for place in self._under(plan):
            self._there.setdefault(place, {})[entry.filter] = entry

    def remove(self, plan: _Plan, filter_: Filter) -> None:
        for place in self._under(plan, leaves=True):
            del self._there[place][filter_]
            if not self._there[place]:
                del self._there[place]

    def find(self, keys: Record) -> Iterable[_Entry]:
        head = tuple([keys.get(column) for column in self._columns])
        if self._places is None:
            there = self._there.get(head)
            return () if there is None else there.values()
        entries: list[_Entry] = []
        for place in self._places.by(keys):
            there = self._there.get((head, place))
            if there is not None:
                entries += there.values()
        return entries


class _Ranged:
    """Found by the keys of columns, then by a range of one."""

    def __init__(self, columns: tuple[str, ...], column: str) -> None:
        self._columns = columns
        self._column = column
        self._there: dict[tuple[Any, ...], Intervals[Filter]] = {}
        self._entries: dict[Filter, _Entry] = {}

    @property
    def empty(self) -> bool:
        return not self._there

    def add(self, plan: _Plan, entry: _Entry) -> None:
        self._entries[entry.filter] = entry
        for head in plan.heads:
            self._there.setdefault(head, Intervals()).add(plan.condition, entry.filter)

    def remove(self, plan: _Plan, filter_: Filter) -> None:
        del self._entries[filter_]
        for head in plan.heads:
            self._there[head].remove(filter_)
            if not len(self._there[head]):
                del self._there[head]

    def find(self, keys: Record) -> Iterable[_Entry]:
        key = keys.get(self._column)
        there = self._there.get(tuple([keys.get(column) for column in self._columns]))
        if key is None or there is None:
            return ()
        return [self._entries[filter_] for filter_ in there.find(key)]


def _group(shape: Shape) -> _Group:
    if shape.further == "range":
        return _Ranged(shape.columns, *shape.of)
    kinds: dict[str, Callable[..., Places]] = {
        "cells": Cells,
        "beginning": Beginnings,
        "end": Ends,
        "part": Parts,
    }
    return _Hashed(shape.columns, kinds[shape.further](*shape.of) if shape.further else None)


def _plan(filter_: Filter) -> _Plan:
    looked_up: dict[str, tuple[Any, ...]] = {}
    places = 1
    few_keys = [(_few_keys(constraint), constraint.column) for constraint in filter_.constraints]
    for keys, column in sorted(few_keys, key=lambda pair: (len(pair[0]), pair[1])):
        if keys and places * len(keys) <= MOST_PLACES:
            looked_up[column] = keys
            places *= len(keys)
    rest = [constraint for constraint in filter_.constraints if constraint.column not in looked_up]
    further, of, condition, settled = _further(filter_, rest)
    tests = [test_of(constraint) for constraint in rest if constraint not in settled]
    columns = tuple(sorted(looked_up))
    return _Plan(
        shape=Shape(columns, further, of),
        heads=list(product(*(looked_up[column] for column in columns))),
        condition=condition,
        tests=[*tests, *(near_test(near, filter_) for near in filter_.nears)],
    )


def _few_keys(constraint: Constraint) -> tuple[Any, ...]:
    if constraint.kind == "other":
        return ()  # its values cannot be looked up
    if constraint.null:
        return (None,)
    return (
        constraint.points
        if len(constraint.ranges) <= MOST_KEYS and not constraint.patterned
        else ()
    )


_Further = tuple[str, tuple[Any, ...], Any, list[Constraint]]


def _further(filter_: Filter, rest: list[Constraint]) -> _Further:
    """The further condition that selects fewest filters, and the constraints that it settles."""
    for near in filter_.nears:
        on = (near.lat_column, near.lon_column)
        implied = [c for c in rest if c.column in on and c.ranges == EVERYTHING]
        return "cells", (*on, *scales(near, filter_)), near, implied
    texts = [text for c in rest if c.kind == "text" and not c.null for text in _texts(c)]
    if texts:
        return max(texts, key=lambda text: len(text[2]))
    ranged = [constraint for constraint in rest if _hull(constraint) != (None, None)]
    if ranged:
        narrowest = min(ranged, key=lambda constraint: None in _hull(constraint))
        return "range", (narrowest.column,), _hull(narrowest), _settled(narrowest)
    return "", (), None, []


def _texts(constraint: Constraint) -> list[_Further]:
    low, high = _hull(constraint)
    conditions: list[_Further] = []
    if low and len(constraint.ranges) == 1 and high == end_of_prefix(low):
        conditions.append(("beginning", (constraint.column,), low, _settled(constraint)))
    if constraint.suffix:
        conditions.append(("end", (constraint.column,), constraint.suffix, []))
    return [
        *conditions,
        *(("part", (constraint.column,), part, []) for part in constraint.contains),
    ]


def _hull(constraint: Constraint) -> tuple[Any, Any]:
    return (None, None) if constraint.null else (constraint.ranges[0][0], constraint.ranges[-1][1])


def _settled(constraint: Constraint) -> list[Constraint]:
    """The constraint, if its hull is all that it asks; then no test is left."""
    return [constraint] if len(constraint.ranges) == 1 and not constraint.patterned else []
