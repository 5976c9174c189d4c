"""Filters of SUBSCRIBE TO DATASET as they are written: conditions, joined with AND.

    column = value, <>, <, <=, >, >=          column IN (value, …)
    column BETWEEN value AND value            column IS [NOT] NULL
    column LIKE 'a%', LIKE '%a', LIKE '%a%'   near(lat, lon, 33.6, -117.8, 5)

`filter_binding` makes filters of them, for a dataset whose columns are known.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from tocsin.sql.literals import read_literal
from tocsin.sql.tokens import Reader

MOST_PARTS = 2000
"""Conditions and values of a filter: each broker compares them with each other."""
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_PLAIN = "conditions are joined with AND; for OR, make one subscription for each"
_LIKE = re.compile(r"(?P<before>%*+)(?P<text>(?:[^%_\\]|\\[%_\\])*+)(?P<after>%*+)", re.DOTALL)


class Value(Struct, frozen=True):
    """A literal, or (in `near`) a column's name, and where it stands."""

    value: Any
    line: int
    column: int
    named: bool = False


class Condition(Struct, frozen=True):
    """`operator` is a sign, BETWEEN, IN, LIKE, IS NULL, IS NOT NULL or NEAR (which has no name)."""

    operator: str
    name: str  # of its column
    values: tuple[Value, ...]
    line: int
    column: int


class Pattern(Struct, frozen=True):
    """A LIKE: the text, and whether anything may come before and after it."""

    text: str
    before: bool
    after: bool


def read_conditions(reader: Reader) -> tuple[Condition, ...]:
    """What follows WHERE."""
    start = reader.offset
    conditions = [_condition(reader)]
    while reader.accept("AND"):
        conditions.append(_condition(reader))
    if sum(1 + len(condition.values) for condition in conditions) > MOST_PARTS:
        reader.fail_at(start, f"a filter has at most {MOST_PARTS} conditions and values")
    if reader.sees("OR"):
        reader.fail("AND or the end of the filter", hint=_PLAIN)
    return tuple(conditions)


def _condition(reader: Reader) -> Condition:
    line, column = reader.place(reader.offset)
    if reader.sees("NOT") or reader.sees("("):
        reader.fail("a column", hint=_PLAIN)
    if reader.sees("NEAR", "("):
        reader.expect("NEAR")
        return Condition("NEAR", "", _point_and_ball(reader), line, column)
    name = reader.word("a column")
    operator, values = _operation(reader)
    return Condition(operator, name, values, line, column)


def _operation(reader: Reader) -> tuple[str, tuple[Value, ...]]:
    if reader.accept("IS"):
        negated = reader.accept("NOT")
        reader.expect("NULL")
        return ("IS NOT NULL" if negated else "IS NULL"), ()
    if reader.accept("BETWEEN"):
        low = _value(reader)
        reader.expect("AND")
        return "BETWEEN", (low, _value(reader))
    if reader.accept("IN"):
        return "IN", tuple(reader.listed(_value, "a value"))
    if reader.accept("LIKE"):
        return "LIKE", (_pattern(reader),)
    for sign, operator in _SIGNS.items():
        if reader.accept(sign):
            return operator, (_value(reader),)
    raise reader.expected("=, <>, <, <=, >, >=, BETWEEN, IN, LIKE or IS", hint=_PLAIN)


def _value(reader: Reader) -> Value:
    start = reader.offset
    value = read_literal(reader)
    if value is None:
        reader.fail_at(start, "nothing compares with NULL", hint="write IS NULL or IS NOT NULL")
    return Value(value, *reader.place(start))


def _pattern(reader: Reader) -> Value:
    start = reader.offset
    given = reader.string("a pattern in quotes")
    match = _LIKE.fullmatch(given)
    if match is None:
        reader.fail_at(
            start,
            f"{given!r} is more than a beginning, an end or a part",
            hint=r"'a%', '%a' or '%a%'; a sign itself is written \%, \_ or \\",
        )
    text = re.sub(r"\\(.)", r"\1", match["text"], flags=re.DOTALL)
    pattern = Pattern(text, bool(match["before"]), bool(match["after"]))
    if not text and (pattern.before or pattern.after):
        pattern = Pattern("", before=True, after=True)
    return Value(pattern, *reader.place(start))


def _point_and_ball(reader: Reader) -> tuple[Value, ...]:
    """Columns of latitude and longitude; a point, and kilometres."""
    start = reader.offset
    coordinates = reader.listed(_coordinate, "a coordinate")
    if [coordinate.named for coordinate in coordinates] == [False, False, True, True, False]:
        coordinates = [*coordinates[2:4], *coordinates[:2], coordinates[4]]
    if [coordinate.named for coordinate in coordinates] != [True, True, False, False, False]:
        reader.fail_at(
            start,
            "near takes the record's point, another point, and kilometres",
            hint="such as near(lat, lon, 33.6, -117.8, 5)",
        )
    return tuple(coordinates)


def _coordinate(reader: Reader) -> Value:
    start = reader.offset
    if re.match(r"[A-Za-z`]", reader.text[start : start + 1]):
        return Value(reader.word("a column"), *reader.place(start), named=True)
    return _value(reader)
