"""A record that matches a filter. Whatever covers the filter matches it, too: so that a few
lookups find all that may cover it."""

from __future__ import annotations

from typing import Any

from tocsin.overlay.filters.filter import Constraint, Filter, tests
from tocsin.overlay.filters.keys import Kind, previous_key
from tocsin.overlay.filters.ranges import Range
from tocsin.overlay.filters.texts import FILLER, is_finite, stem_in

_SOME: dict[Kind, Any] = {
    "double": 0.0,
    "single": 0.0,
    "text": "",
    "date": "2000-01-01",
    "timestamp": "2000-01-01T00:00:00.000000Z",
}


def witness(filter_: Filter) -> dict[str, Any] | None:
    """The keys of such a record; NULL wherever the filter allows it. None if it is not found:
    where several balls meet, or a ball and a range, there need not be any."""
    keys = {one.column: _key(one) for one in filter_.constraints}
    for near in filter_.nears:
        for column, degrees in ((near.lat_column, near.lat), (near.lon_column, near.lon)):
            constraint = filter_.on(column)
            scale = constraint.scale if constraint is not None else 0
            decimal = constraint is not None and constraint.kind in ("decimal", "whole")
            keys[column] = round(degrees * 10**scale) if decimal else degrees
    return keys if all(test(keys) for test in tests(filter_)) else None


def _key(one: Constraint) -> Any:
    if one.null:
        return None
    return _patterned(one) if one.patterned else _in(one.kind, one.ranges[0])


def _in(kind: Kind, one: Range) -> Any:
    low, high = one
    if low is not None:
        return low
    return _SOME.get(kind, 0) if high is None else previous_key(kind, high)


def _patterned(one: Constraint) -> str:
    """Of a finite range, canonical form has kept what fits."""
    each = one.ranges[0]
    if is_finite(each):
        return str(each[0] or "")
    return FILLER.join([stem_in(each), *one.contains, one.suffix])
