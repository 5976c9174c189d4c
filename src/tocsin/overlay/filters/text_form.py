"""The canonical text of a filter. `sql` reads it back to an equal filter."""

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
"""Up to so many keys are listed, rather than written as a range with holes."""


def as_text(filter_: Filter) -> str:
    """What follows WHERE; empty if everything matches."""
    implied = {column for near in filter_.nears for column in (near.lat_column, near.lon_column)}
    conditions = [
        condition
        for constraint in filter_.constraints
        for condition in _conditions(constraint, implied=constraint.column in implied)
    ]
    return " AND ".join([*conditions, *map(_near, filter_.nears)])


def _conditions(constraint: Constraint, *, implied: bool) -> list[str]:
    name = constraint.column
    if constraint.null:
        return [f"{name} IS NULL"]
    conditions = _ranges(name, constraint)
    if constraint.suffix:
        conditions.append(f"{name} LIKE '%{_pattern(constraint.suffix)}'")
    conditions += [f"{name} LIKE '%{_pattern(part)}%'" for part in constraint.contains]
    return conditions or ([] if implied else [f"{name} IS NOT NULL"])


def _ranges(name: str, constraint: Constraint) -> list[str]:
    if constraint.ranges == EVERYTHING:
        return []
    holes = sum(count_keys(constraint.kind, low, high) for low, high in gaps(constraint.ranges))
    hull = (constraint.ranges[0][0], constraint.ranges[-1][1])
    if constraint.size == 1 or (
        len(constraint.ranges) > 1 and constraint.size <= max(holes, LISTED)
    ):
        keys = [key for range_ in constraint.ranges for key in _keys(constraint.kind, range_)]
        listed = [_literal(constraint, key) for key in keys]
        return [f"{name} IN ({', '.join(listed)})" if len(listed) > 1 else f"{name} = {listed[0]}"]
    conditions = _hull(name, constraint, *hull)
    for gap in gaps(constraint.ranges):
        conditions += [
            f"{name} <> {_literal(constraint, key)}" for key in _keys(constraint.kind, gap)
        ]
    return conditions


def _hull(name: str, constraint: Constraint, low: Any, high: Any) -> list[str]:
    if constraint.kind == "text" and low and high == end_of_prefix(low):
        return [f"{name} LIKE '{_pattern(low)}%'"]
    conditions = []
    if low is not None and low != "":
        sign, key = _lower(constraint.kind, low)
        conditions.append(f"{name} {sign} {_literal(constraint, key)}")
    if high is not None:
        sign, key = _upper(constraint.kind, high)
        conditions.append(f"{name} {sign} {_literal(constraint, key)}")
    if [condition.split()[1] for condition in conditions] == [">=", "<="]:
        first, last = (condition.split(" ", 2)[2] for condition in conditions)
        return [f"{name} BETWEEN {first} AND {last}"]
    return conditions


def _lower(kind: Kind, low: Any) -> tuple[str, Any]:
    """The shorter form: `> 1.0`, not `>= 1.0000000000000002`."""
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


def _keys(kind: Kind, range_: Range) -> list[Any]:
    key, high = range_
    keys = []
    while key is not None and key < high:
        keys.append(key)
        key = next_key(kind, key)
    return keys


def _literal(constraint: Constraint, key: Any) -> str:
    match constraint.kind:
        case "boolean":
            return "TRUE" if key else "FALSE"
        case "decimal":
            digits = str(abs(key)).rjust(constraint.scale + 1, "0")
            point = len(digits) - constraint.scale
            whole, part = digits[:point], digits[point:]
            return f"'{'-' if key < 0 else ''}{whole}{'.' if part else ''}{part}'"
        case "date" | "timestamp":
            return f"{constraint.kind.upper()} '{key}'"
        case "text":
            return f"'{_quoted(key)}'"
        case _:
            return repr(key)


def _near(near: Near) -> str:
    return f"near({near.lat_column}, {near.lon_column}, {near.lat!r}, {near.lon!r}, {near.km!r})"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return _quoted(escaped)
