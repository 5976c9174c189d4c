"""Many filters: which match a record, which are the widest. Each against looking at all of them."""

from __future__ import annotations

import math
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.made_up import WORLD, Question, questions, records
from tocsin.geo import RADIUS_KM
from tocsin.overlay.filters import Filter, covers, matches
from tocsin.overlay.filters.index import FilterIndex
from tocsin.overlay.filters.intervals import Intervals
from tocsin.overlay.filters.widest import Widest
from tocsin.sql import parse_filter

several = st.lists(questions(most=3), min_size=1, max_size=12)


@settings(max_examples=120, deadline=None)
@given(several, st.data(), records(8))
def test_the_index_finds_what_a_scan_finds(
    asked: list[Question], data: st.DataObject, some: list[dict[str, Any]]
) -> None:
    index = FilterIndex()
    for question in [*asked, asked[0]]:
        index.add(question.filter)
    there = list(dict.fromkeys(question.filter for question in asked))
    for gone in data.draw(st.lists(st.sampled_from(there), unique=True)):
        index.remove(gone)
        there.remove(gone)
    assert sorted(map(hash, index)) == sorted(map(hash, there))
    for record in some:
        found = index.match(record)
        assert len(set(found)) == len(found)
        assert set(found) == {one for one in there if matches(one, record)}
    for one in there:
        index.remove(one)
    assert not len(index)
    assert not any(index.match(record) for record in some)


def test_nothing_near_is_lost_by_the_grid() -> None:
    """Points just inside and outside of balls of every size, poles and date line included."""
    chance = random.Random(7)
    index, balls = FilterIndex(), []
    for number in range(400):
        lat = chance.choice([chance.uniform(-90, 90), 89.9999, -89.9999, 0.0])
        lon = chance.choice([chance.uniform(-180, 180), 179.9999, -179.9999])
        km = 10 ** chance.uniform(-3, 4.2)
        near = f"near(lat, lon, {lat!r}, {lon!r}, {km!r}) AND whole = {number}"
        balls.append((parse_filter(near, WORLD), lat, lon, km))
        index.add(balls[-1][0])
    found = 0
    for number, (ball, lat, lon, km) in enumerate(balls):
        way, turn = km / RADIUS_KM * chance.uniform(0.9, 1.0001), chance.uniform(0, math.tau)
        a, o = math.radians(lat), math.radians(lon)
        there = math.asin(
            math.sin(a) * math.cos(way) + math.cos(a) * math.sin(way) * math.cos(turn)
        )
        along = o + math.atan2(
            math.sin(turn) * math.sin(way) * math.cos(a),
            math.cos(way) - math.sin(a) * math.sin(there),
        )
        record = {"lat": math.degrees(there), "lon": math.degrees(along), "whole": number}
        assert index.match(record) == ([ball] if matches(ball, record) else [])
        found += matches(ball, record)
    assert 300 < found < 400


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([40, 300]))
def test_intervals_find_what_a_scan_finds(seed: int, count: int) -> None:
    chance = random.Random(seed)
    intervals: Intervals[int] = Intervals()
    there: dict[int, tuple[Any, Any]] = {}
    for number in range(count):
        low = chance.choice([None, chance.randrange(50)])
        high = chance.choice([None, (low or 0) + 1 + chance.randrange(20)])
        intervals.add((low, high), number)
        there[number] = low, high
        if chance.random() < 0.6:
            gone = chance.choice(list(there))
            intervals.remove(gone)
            del there[gone]
            if chance.random() < 0.3:  # it comes again
                intervals.add((low, high), gone)
                there[gone] = low, high
        key = chance.randrange(70)
        assert sorted(intervals.find(key)) == sorted(
            one
            for one, (low, high) in there.items()
            if (low is None or low <= key) and (high is None or key < high)
        )
    assert len(intervals) == len(there)


def widest(filters: list[Filter]) -> set[Filter]:
    return {
        one for one in filters if not any(covers(other, one) for other in filters if other != one)
    }


@settings(max_examples=150, deadline=None)
@given(st.lists(questions(("whole", "name", "flag"), most=2), min_size=1, max_size=12), st.data())
def test_the_widest_depend_on_the_set_alone(asked: list[Question], data: st.DataObject) -> None:
    """Whatever comes and goes, in any order; and the changes that are told add up to them."""
    filters = list(dict.fromkeys(question.filter for question in asked))
    kept, told, there = Widest(), set[Filter](), list[Filter]()
    for filter_ in data.draw(st.lists(st.sampled_from(filters), max_size=30)):
        if filter_ in there:
            change = kept.remove(filter_)
            there.remove(filter_)
        else:
            change = kept.add(filter_)
            there.append(filter_)
        assert not told & set(change.come)
        assert set(change.gone) <= told
        told = (told | set(change.come)) - set(change.gone)
        assert told == set(kept) == widest(there)
        assert all((one in kept) == (one in there) for one in filters)
