"""A filter as text, one for each: `sql` reads it back to the same filter."""

from __future__ import annotations

from typing import Any

from tocsin.overlay.filters.filter import Constraint, Filter, Near
from tocsin.overlay.filters.keys import (
    Kind,
    count_keys,
    end_of_prefix,
    next_key,
    previous_key,
)
from tocsin.overlay.filters.ranges import EVERYTHING, Range, gaps

LISTED = 16
"""So many keys are told one by one rather than as a range with holes."""


def told(filter_: Filter) -> str:
    """What follows WHERE; empty if everything matches."""
    implied = {column for one in filter_.nears for column in (one.lat_column, one.lon_column)}
    said = [
        condition
        for one in filter_.constraints
        for condition in _conditions(one, implied=one.column in implied)
    ]
    return " AND ".join([*said, *map(_near, filter_.nears)])


def _conditions(one: Constraint, *, implied: bool) -> list[str]:
    name = one.column
    if one.null:
        return [f"{name} IS NULL"]
    said = _ranges(name, one)
    if one.suffix:
        said.append(f"{name} LIKE '%{_pattern(one.suffix)}'")
    said += [f"{name} LIKE '%{_pattern(part)}%'" for part in one.contains]
    return said or ([] if implied else [f"{name} IS NOT NULL"])


def _ranges(name: str, one: Constraint) -> list[str]:
    if one.ranges == EVERYTHING:
        return []
    holes = sum(count_keys(one.kind, low, high) for low, high in gaps(one.ranges))
    hull = (one.ranges[0][0], one.ranges[-1][1])
    if one.size == 1 or (len(one.ranges) > 1 and one.size <= max(holes, LISTED)):
        listed = [_literal(one, key) for each in one.ranges for key in _keys(one.kind, each)]
        return [f"{name} IN ({', '.join(listed)})" if len(listed) > 1 else f"{name} = {listed[0]}"]
    said = _hull(name, one, *hull)
    for gap in gaps(one.ranges):
        said += [f"{name} <> {_literal(one, key)}" for key in _keys(one.kind, gap)]
    return said


def _hull(name: str, one: Constraint, low: Any, high: Any) -> list[str]:
    if one.kind == "text" and low and high == end_of_prefix(low):
        return [f"{name} LIKE '{_pattern(low)}%'"]
    said = []
    if low is not None and low != "":
        sign, key = _lower(one.kind, low)
        said.append(f"{name} {sign} {_literal(one, key)}")
    if high is not None:
        sign, key = _upper(one.kind, high)
        said.append(f"{name} {sign} {_literal(one, key)}")
    if [condition.split()[1] for condition in said] == [">=", "<="]:
        first, last = (condition.split(" ", 2)[2] for condition in said)
        return [f"{name} BETWEEN {first} AND {last}"]
    return said


def _lower(kind: Kind, low: Any) -> tuple[str, Any]:
    """As one would write it: `> 1.0`, not `>= 1.0000000000000002`."""
    if kind == "text":
        return (">", low[:-1]) if low.endswith("\0") else (">=", low)
    if kind in ("double", "single"):
        below = previous_key(kind, low)
        if below is not None and len(repr(below)) < len(repr(low)):
            return ">", below
    return ">=", low


def _upper(kind: Kind, high: Any) -> tuple[str, Any]:
    if kind == "text":
        return ("<=", high[:-1]) if high.endswith("\0") else ("<", high)
    below = previous_key(kind, high)
    if kind in ("double", "single") and (below is None or len(repr(high)) <= len(repr(below))):
        return "<", high
    return "<=", below


def _keys(kind: Kind, one: Range) -> list[Any]:
    key, high = one
    found = []
    while key is not None and key < high:
        found.append(key)
        key = next_key(kind, key)
    return found


def _literal(one: Constraint, key: Any) -> str:
    match one.kind:
        case "boolean":
            return "TRUE" if key else "FALSE"
        case "decimal":
            digits = str(abs(key)).rjust(one.scale + 1, "0")
            whole, part = digits[: len(digits) - one.scale], digits[len(digits) - one.scale :]
            return f"'{'-' if key < 0 else ''}{whole}{'.' if part else ''}{part}'"
        case "date" | "timestamp":
            return f"{one.kind.upper()} '{key}'"
        case "text":
            return f"'{_quoted(key)}'"
        case _:
            return repr(key)


def _near(one: Near) -> str:
    return f"near({one.lat_column}, {one.lon_column}, {one.lat!r}, {one.lon!r}, {one.km!r})"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return _quoted(escaped)
