"""Filters: what they match, what they are told as, what covers what. Each against the plainest
reading of its conditions, and against every record that could tell."""

from __future__ import annotations

import math
import random
import re
from contextlib import suppress
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.made_up import (
    ALONE,
    NAMED,
    PATTERNS,
    PIECES,
    SIGNS,
    WORLD,
    Question,
    literal,
    questions,
    records,
)
from tocsin.errors import StatementError
from tocsin.geo import HALF_WAY_ROUND_KM, RADIUS_KM, distance_km
from tocsin.overlay.filters import Filter, Near, as_text, covers, matches, overlap
from tocsin.overlay.filters.witness import witness
from tocsin.sql import parse_filter


@settings(max_examples=120, deadline=None)
@given(questions(), records(20))
def test_a_filter_matches_what_its_conditions_say(
    question: Question, some: list[dict[str, Any]]
) -> None:
    for record in some:
        assert matches(question.filter, record) == question.holds(record), question.text


@settings(max_examples=90, deadline=None)
@given(questions())
def test_a_filter_is_read_back_from_what_it_is_told_as(question: Question) -> None:
    assert parse_filter(as_text(question.filter), WORLD) == question.filter
    sent = msgspec.json.encode(question.filter)
    assert msgspec.json.decode(sent, type=Filter) == question.filter


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
def test_any_text_is_told_and_read_back(equal: str, end: str, part: str) -> None:
    asked = {
        f"= {_quoted(equal)}": equal,
        f"LIKE {_like('', part, '%')}": part + equal,
        f"LIKE {_like('%', end, '')}": equal + end,
        f"LIKE {_like('%', part, '%')}": equal + part + end,
    }
    for condition, name in asked.items():
        found = parse_filter(f"name {condition}", WORLD)
        assert parse_filter(as_text(found), WORLD) == found
        assert matches(found, {"name": name})


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _like(before: str, text: str, after: str) -> str:
    for sign in "\\%_":
        text = text.replace(sign, "\\" + sign)
    return _quoted(before + text + after)


ALIKE = [
    ("whole > 2 AND whole < 5", "whole BETWEEN 3 AND 4"),
    ("whole IN (2, 3)", "whole >= 2 AND whole <= 3"),
    ("whole <> 2", "whole <> 2 AND whole IS NOT NULL"),
    ("whole >= -2147483648", "whole IS NOT NULL"),
    ("double > 1", "double >= 1.0000000000000002"),
    ("double = -0.0", "double = 0"),
    ("price > 0.1", "price >= '0.11'"),
    ("flag = FALSE", "flag <> TRUE"),
    ("flag <= TRUE", "flag IS NOT NULL"),
    ("day > '2026-11-16'", "day >= '2026-11-17'"),
    ("at > '2026-11-16T02:00:00Z'", "at >= TIMESTAMP '2026-11-16 02:00:00.000001'"),
    ("name LIKE 'a'", "name = 'a'"),
    ("name LIKE '%'", "name IS NOT NULL"),
    ("name LIKE 'a%' AND name LIKE 'ab%'", "name LIKE 'ab%'"),
    ("name LIKE 'ab%' AND name LIKE '%b%'", "name LIKE 'ab%'"),
    ("name LIKE '%ab' AND name LIKE '%b'", "name LIKE '%ab'"),
    ("name IN ('ab', 'ba') AND name LIKE '%b'", "name = 'ab'"),
    ("name <> 'a' AND name LIKE '%b'", "name LIKE '%b'"),
    ("near(lat, lon, 1, 2, 3)", "near(1, 2, lat, lon, 3.0) AND lat IS NOT NULL"),
    ("near(lat, lon, 1, 2, 3)", "near(lat, lon, 1, 2, 3) AND near(lat, lon, 1, 2, 4)"),
    ("near(lat, lon, 1, 2, 3)", "near(lat, lon, 1, 2, 3) AND near(lat, lon, 1.001, 2, 40)"),
    ("near(lat, lon, 1, 2, 20016)", "near(lat, lon, -80, 7, 1e6)"),
    ("name < 'b' AND name LIKE '%a'", "name <= 'b' AND name LIKE '%a'"),
    ("name > 'b' AND name LIKE '%a%'", "name >= 'b' AND name LIKE '%a%'"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_equal_questions_are_equal_filters(one: str, other: str) -> None:
    assert parse_filter(one, WORLD) == parse_filter(other, WORLD)


@settings(max_examples=120, deadline=None)
@given(questions(most=2), questions(most=4), records(20))
def test_whatever_is_covered_matches_what_covers_it(
    wide: Question, narrow: Question, some: list[dict[str, Any]]
) -> None:
    f, g = wide.filter, narrow.filter
    assert covers(f, f)
    common = [record for record in some if matches(f, record) and matches(g, record)]
    if covers(f, g):
        assert f == g or not covers(g, f)  # whoever asks the same is equal
        assert all(matches(f, record) for record in some if matches(g, record))
    if common:
        assert overlap(f, g)


@settings(max_examples=90, deadline=None)
@given(questions(most=2), questions(most=2), questions(most=3))
def test_covering_is_transitive(one: Question, two: Question, three: Question) -> None:
    if covers(one.filter, two.filter) and covers(two.filter, three.filter):
        assert covers(one.filter, three.filter)


def _atoms(column: str) -> list[str]:
    """Every condition that the small world has on a column."""
    values = NAMED[column]
    pairs = [(one, other) for at, one in enumerate(values) for other in values[at + 1 :]]
    found = [f"{column} {sign} {literal(value)}" for sign in SIGNS for value in values]
    for one, other in pairs:
        found.append(f"{column} IN ({literal(one)}, {literal(other)})")
        found.append(f"{column} BETWEEN {literal(one)} AND {literal(other)}")
    if column == "name":
        found += [f"name LIKE {form.format(piece)}" for form in PATTERNS for piece in PIECES]
    return [*found, f"{column} IS NULL", f"{column} IS NOT NULL"]


def _by_order(text: str) -> bool:
    """Text that is compared by order beside LIKE, of which the docs make an exception."""
    return bool(re.search("name (<=?|>=?|BETWEEN) ", text)) and "LIKE '%" in text


@pytest.mark.parametrize("column", NAMED)
def test_covering_is_exact_for_any_two_conditions(column: str) -> None:
    """One or two conditions against one or two: it says yes if and only if no record tells them
    apart, and that they overlap if and only if one matches both."""
    atoms = _atoms(column)
    texts = [*atoms, *(f"{one} AND {other}" for one, other in combinations(atoms, 2))]
    if column == "name":
        texts = random.Random(7).sample(texts, 500)
    every = [{column: value} for value in [None, *ALONE[column]]]
    known: dict[Filter, tuple[int, bool]] = {}
    for text in texts:
        with suppress(StatementError):
            found = parse_filter(text, WORLD)
            bits = sum(1 << at for at, record in enumerate(every) if matches(found, record))
            known[found] = bits, known.get(found, (0, True))[1] and _by_order(text)
    for f, (wide, wide_by_order) in known.items():
        for g, (narrow, narrow_by_order) in known.items():
            inside = narrow & ~wide == 0
            if covers(f, g) != inside:
                assert inside, (as_text(f), as_text(g))
                assert narrow_by_order or wide_by_order, (as_text(f), as_text(g))
            if overlap(f, g) != bool(wide & narrow):
                assert narrow_by_order or wide_by_order, (as_text(f), as_text(g))


@settings(max_examples=90, deadline=None)
@given(questions(most=2, near=False), questions(most=3, near=False))
def test_covering_is_complete_for_several_columns(wide: Question, narrow: Question) -> None:
    """A record that matches the one, changed in one column, tells them apart."""
    f, g = wide.filter, narrow.filter
    base = witness(g)
    if base is None or covers(f, g) or _by_order(narrow.text):
        return
    records = [
        record
        for found in [_values(base)]
        for column in ALONE
        for record in [{**found, column: value} for value in [None, *ALONE[column]]]
    ]
    assert any(matches(g, record) and not matches(f, record) for record in records)


def _values(keys: dict[str, Any]) -> dict[str, Any]:
    """A record with these keys."""
    price = keys.get("price")
    return {**keys, **({"price": f"{price / 100:.2f}"} if price is not None else {})}


@settings(max_examples=90, deadline=None)
@given(questions())
def test_a_witness_matches(question: Question) -> None:
    keys = witness(question.filter)
    if keys is None:
        assert question.nears
    else:
        assert matches(question.filter, _values(keys))


# -- near -----------------------------------------------------------------------------------------

latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


def _ball(lat: float, lon: float, km: float) -> Filter:
    return parse_filter(f"near(lat, lon, {lat!r}, {lon!r}, {km!r})", WORLD)


def _beyond(one: Near, other: Near) -> tuple[float, float]:
    """The point of a ball that is farthest from another's centre: on the line through both."""
    a1, o1, a2, o2 = (math.radians(each) for each in (other.lat, other.lon, one.lat, one.lon))
    back = math.atan2(
        math.sin(o1 - o2) * math.cos(a1),
        math.cos(a2) * math.sin(a1) - math.sin(a2) * math.cos(a1) * math.cos(o1 - o2),
    )
    away, way = back + math.pi, one.km / RADIUS_KM * (1 - 1e-9)
    lat = math.asin(math.sin(a2) * math.cos(way) + math.cos(a2) * math.sin(way) * math.cos(away))
    lon = o2 + math.atan2(
        math.sin(away) * math.sin(way) * math.cos(a2),
        math.cos(way) - math.sin(a2) * math.sin(lat),
    )
    return math.degrees(lat), math.degrees(lon)


@settings(max_examples=90, deadline=None)
@given(
    latitudes, longitudes, st.floats(0, 5000), st.floats(0, 1), st.floats(0, 360), st.floats(-2, 2)
)
@example(89.9999, 0.0, 10.0, 0.5, 0.0, 0.0)
def test_a_ball_covers_one_inside_it_and_no_other(
    lat: float, lon: float, km: float, part: float, turn: float, spare_km: float
) -> None:
    """Balls that touch from inside, but for a kilometre or two, anywhere on the sphere."""
    middle = Near("lat", "lon", lat, lon, km * part)
    to = Near("lat", "lon", max(-90.0, min(90.0, lat + 0.01)), lon + turn / 360, 0.0)
    centre = _beyond(middle, to)
    apart = distance_km(lat, lon, *centre)
    small = Near("lat", "lon", *centre, max(0.0, km - apart + spare_km))
    large = Near("lat", "lon", lat, lon, km)
    covered = covers(Filter("w", (), (large,)), Filter("w", (), (small,)))
    farthest = distance_km(lat, lon, *_beyond(small, large))
    if covered:
        assert farthest <= km + 1e-9
    elif apart + small.km > km + 0.002:
        assert farthest > km or apart + small.km >= HALF_WAY_ROUND_KM


def test_balls_around_one_point_need_no_margin_and_the_whole_world_covers_all() -> None:
    assert covers(_ball(1.0, 2.0, 5.0), _ball(1.0, 2.0, 5.0))
    assert not covers(_ball(1.0, 2.0, 5.0), _ball(1.0, 2.0, 5.000001))
    assert covers(_ball(1.0, 2.0, HALF_WAY_ROUND_KM), _ball(-1.0, 90.0, 20_000.0))
    assert covers(parse_filter("lat IS NOT NULL", WORLD), _ball(1.0, 2.0, 5.0))
    assert not overlap(_ball(0.0, 0.0, 5.0), _ball(0.0, 1.0, 5.0))


def test_absurd_coordinates_are_near_nothing() -> None:
    everywhere = _ball(0.0, 0.0, 30_000.0)
    assert matches(everywhere, {"lat": 90.0, "lon": 720.0})
    assert not matches(everywhere, {"lat": 1e15, "lon": 0.0})
    assert not matches(everywhere, {"lat": None, "lon": 0.0})
