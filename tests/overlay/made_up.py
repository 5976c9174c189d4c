"""Filters and records over a small world: few columns, of every kind, and few values.

The values are such that they tell filters apart: of each number that conditions name, those beside
it are among the records; of text, whatever has and lacks the beginnings, ends and parts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from msgspec import Struct

from tocsin.errors import StatementError
from tocsin.geo import distance_km
from tocsin.model import Column, Dataset
from tocsin.overlay.filters import Filter
from tocsin.overlay.filters.keys import single
from tocsin.sql import parse_filter
from tocsin.sql.coercion import coerce

WORLD = Dataset(
    "world",
    (
        Column("whole", "INT"),
        Column("double", "DOUBLE"),
        Column("single", "FLOAT"),
        Column("price", "DECIMAL(5,2)"),
        Column("flag", "BOOLEAN"),
        Column("day", "DATE"),
        Column("at", "TIMESTAMP"),
        Column("name", "STRING"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
        Column("tags", "ARRAY<STRING>"),
    ),
)
TYPES = {column.name: column.type for column in WORLD.columns}

NUMBERS = (1.0, 1.5)
PIECES = ("a", "b", "ab", "ba")
NAMED: dict[str, list[Any]] = {
    "whole": [2, 3, 5],
    "double": list(NUMBERS),
    "single": [0.1, 1.5],
    "price": ["0.10", "1.00"],
    "flag": [False, True],
    "day": ["2026-11-16", "2026-11-17"],
    "at": ["2026-11-16T02:00:00Z", "2026-11-16T02:00:00.000001Z"],
    "name": ["", *PIECES],
}
"""What conditions name."""

BETWEEN_SINGLES = math.nextafter(single(0.1), 1)  # a record's value, which a FLOAT rounds
MOMENTS = [
    datetime(2026, 11, 16, 2, tzinfo=UTC) + timedelta(microseconds=one) for one in range(-1, 3)
]
ALONE: dict[str, list[Any]] = {
    "whole": [1, 2, 3, 4, 5, 6],
    "double": [
        each
        for number in NUMBERS
        for each in (math.nextafter(number, 0), number, math.nextafter(number, 2), number + 0.25)
    ],
    "single": [0.0, single(math.nextafter(0.1, 0)), 0.1, BETWEEN_SINGLES, 0.2, 1.5, 2.0],
    "price": ["0.09", "0.10", "0.11", "0.99", "1.00", "1.01"],
    "flag": [False, True],
    "day": [(date(2026, 11, 15) + timedelta(days=one)).isoformat() for one in range(4)],
    "at": [coerce(one.isoformat(), "TIMESTAMP") for one in MOMENTS],
    "name": sorted(
        {
            *("".join(letters) for n in range(4) for letters in product("abc", repeat=n)),
            *(piece + "\0" for piece in ("", *PIECES)),
            *(
                between.join(parts)
                for between in "0z"  # below and above every letter of the pieces
                for parts in product(("", *PIECES), ("", *PIECES), ("", *PIECES), ("", *PIECES))
            ),
        }
    ),
    "tags": [["x"]],
}
"""Values of one column that tell apart whatever conditions on it can say."""

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
PATTERNS: dict[str, Callable[[str, str], bool]] = {
    "'{}%'": str.startswith,
    "'%{}'": str.endswith,
    "'%{}%'": str.__contains__,
}


class Asked(Struct, frozen=True):
    """One condition, its text, and what it says of a value as plainly as can be."""

    text: str
    column: str
    holds: Callable[[Any], bool]


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


def comparable(column: str, value: Any) -> Any:
    if column == "single":
        return single(value)
    return Decimal(value) if column == "price" else coerce(value, TYPES[column])


@st.composite
def conditions(draw: st.DrawFn, columns: tuple[str, ...] = tuple(NAMED)) -> Asked:
    column = draw(st.sampled_from([*columns, "tags"] if len(columns) > 1 else columns))
    forms = ["null"] if column == "tags" else ["sign", "sign", "sign", "between", "in", "null"]
    form = draw(st.sampled_from([*forms, "like", "like"] if column == "name" else forms))
    if form == "null":
        negated = draw(st.booleans())
        text = f"{column} IS {'NOT ' if negated else ''}NULL"
        return Asked(text, column, lambda value: (value is None) != negated)
    if form == "like":
        pattern, piece = draw(st.sampled_from(list(PATTERNS))), draw(st.sampled_from(PIECES))
        like = PATTERNS[pattern]
        return Asked(
            f"name LIKE {pattern.format(piece)}",
            column,
            lambda value: value is not None and like(value, piece),
        )
    named = st.sampled_from(NAMED[column])
    if form == "between":
        low, high = sorted((draw(named), draw(named)), key=lambda one: comparable(column, one))
        text = f"{column} BETWEEN {literal(low)} AND {literal(high)}"
        ends = comparable(column, low), comparable(column, high)
        return _compared(text, column, lambda key: ends[0] <= key <= ends[1])
    if form == "in":
        among = draw(st.lists(named, min_size=1, max_size=3))
        keys = [comparable(column, one) for one in among]
        text = f"{column} IN ({', '.join(map(literal, among))})"
        return _compared(text, column, lambda key: key in keys)
    sign, value = draw(st.sampled_from(list(SIGNS))), draw(named)
    key = comparable(column, value)
    return _compared(f"{column} {sign} {literal(value)}", column, lambda one: SIGNS[sign](one, key))


def _compared(text: str, column: str, holds: Callable[[Any], bool]) -> Asked:
    return Asked(text, column, lambda value: value is not None and holds(comparable(column, value)))


SPOTS = [(0.0, 0.0), (0.0, 0.01), (0.02, 0.0), (89.999, 0.0), (89.999, 180.0), (0.0, 180.0)]
RADII = [0.0, 0.5, 1.5, 3.0, 300.0, 10_000.0, 20_015.2]


@st.composite
def nears(draw: st.DrawFn) -> tuple[str, Callable[[Any, Any], bool]]:
    (lat, lon), km = draw(st.sampled_from(SPOTS)), draw(st.sampled_from(RADII))
    text = f"near(lat, lon, {lat}, {lon}, {km})"
    if draw(st.booleans()):
        text = f"near({lat}, {lon}, lat, lon, {km})"

    def holds(there: Any, along: Any) -> bool:
        return None not in (there, along) and distance_km(there, along, lat, lon) <= km

    return text, holds


class Question(Struct, frozen=True):
    """A filter, its text, and what it says of a record as plainly as can be."""

    text: str
    filter: Filter
    asked: tuple[Asked, ...]
    nears: tuple[Callable[[Any, Any], bool], ...]

    def holds(self, record: dict[str, Any]) -> bool:
        return all(one.holds(record.get(one.column)) for one in self.asked) and all(
            near(record.get("lat"), record.get("lon")) for near in self.nears
        )


@st.composite
def questions(
    draw: st.DrawFn, columns: tuple[str, ...] = tuple(NAMED), most: int = 4, near: bool = True
) -> Question:
    asked = draw(st.lists(conditions(columns), min_size=0, max_size=most))
    around = draw(st.lists(nears(), max_size=1)) if near else []
    text = " AND ".join([*(one.text for one in asked), *(one for one, _ in around)])
    try:
        made = parse_filter(text, WORLD)
    except StatementError as error:
        assume("nothing could match" not in error.message)
        raise
    return Question(text, made, tuple(asked), tuple(holds for _, holds in around))


def records(count: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Drawn by a seed: drawn one by one they would take most of the time."""
    return st.integers(0, 2**32).map(
        lambda seed: [_record(random.Random(seed + number)) for number in range(count)]
    )


def _record(chance: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        column: None if chance.random() < 0.15 else chance.choice(values)
        for column, values in ALONE.items()
    }
    lat, lon = chance.choice(SPOTS)
    found["lat"] = None if chance.random() < 0.15 else lat
    found["lon"] = lon + chance.choice([0.0, 0.004, 0.0135, 0.5, 90.0])
    return found
