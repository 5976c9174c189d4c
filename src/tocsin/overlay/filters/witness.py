"""A record that matches a filter. Every filter that covers it also matches this record, so a few
index lookups yield all candidates."""

from __future__ import annotations

from typing import Any

from tocsin.overlay.filters.filter import Constraint, Filter, tests
from tocsin.overlay.filters.keys import Kind, previous_key
from tocsin.overlay.filters.ranges import Range
from tocsin.overlay.filters.texts import FILLER, is_finite, stem_in

_ARBITRARY_KEYS: dict[Kind, Any] = {
    "double": 0.0,
    "single": 0.0,
    "text": "",
    "date": "2000-01-01",
    "timestamp": "2000-01-01T00:00:00.000000Z",
}


def witness(filter_: Filter) -> dict[str, Any] | None:
    """The keys of such a record; NULL wherever the filter allows it. None if the attempt fails, as
    it may with several balls, or with a ball and a range."""
    keys = {constraint.column: _key(constraint) for constraint in filter_.constraints}
    for near in filter_.nears:
        for column, degrees in ((near.lat_column, near.lat), (near.lon_column, near.lon)):
            constraint = filter_.on(column)
            scale = constraint.scale if constraint is not None else 0
            decimal = constraint is not None and constraint.kind in ("decimal", "whole")
            keys[column] = round(degrees * 10**scale) if decimal else degrees
    return keys if all(test(keys) for test in tests(filter_)) else None


def _key(constraint: Constraint) -> Any:
    if constraint.null:
        return None
    return (
        _patterned(constraint)
        if constraint.patterned
        else _in(constraint.kind, constraint.ranges[0])
    )


def _in(kind: Kind, range_: Range) -> Any:
    low, high = range_
    if low is not None:
        return low
    return _ARBITRARY_KEYS.get(kind, 0) if high is None else previous_key(kind, high)


def _patterned(constraint: Constraint) -> str:
    """In canonical form, every text of a finite range fits."""
    range_ = constraint.ranges[0]
    if is_finite(range_):
        return str(range_[0] or "")
    return FILLER.join([stem_in(range_), *constraint.contains, constraint.suffix])
