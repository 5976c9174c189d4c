"""Who shares a query with whom, and when it begins anew."""

from __future__ import annotations

from tocsin.spark.real_time.culprits import find_culprits
from tocsin.spark.real_time.members import Form, Key
from tocsin.spark.real_time.sharing import (
    FEW_RECORDS,
    GATHER_S,
    MOST_BEHIND,
    assign,
    may_begin_anew,
    side_by_side,
)


def form(text: str) -> Form:
    return Form(text, "", Key((), None))


def test_channels_stay_in_their_query_and_new_ones_fill_it() -> None:
    wanted = {name: [form(name)] for name in "abcde"}
    first = assign({}, {name: wanted[name] for name in "abc"}, most=2)
    assert first == {1: ("a", "b"), 2: ("c",)}
    assert assign(first, wanted, most=2) == {1: ("a", "b"), 2: ("c", "d"), 3: ("e",)}


def test_channels_that_ask_alike_take_no_room() -> None:
    wanted = {f"c{number}": [form("same")] for number in range(1000)}
    assert assign({}, wanted, most=1) == {1: tuple(wanted)}


def test_dropped_channels_make_room_and_an_empty_query_ends() -> None:
    wanted = {name: [form(name)] for name in "bcd"}
    assert assign({1: ("a", "b"), 2: ("x",)}, wanted, most=2) == {1: ("b", "c"), 2: ("d",)}
    assert assign({1: ("a",)}, {}, most=2) == {}


def test_query_begins_anew_when_that_repeats_little() -> None:
    late = GATHER_S + 1
    assert may_begin_anew(late, 50.0, FEW_RECORDS)
    assert may_begin_anew(late, 1.0, 10 * FEW_RECORDS)  # its batch has just ended
    assert not may_begin_anew(late, 50.0, FEW_RECORDS + 1)
    assert not may_begin_anew(GATHER_S / 2, 1.0, 0)  # more may come


def test_channel_far_behind_catches_up_before_it_joins_others() -> None:
    here = {"a": 10 * MOST_BEHIND, "b": 10 * MOST_BEHIND - 5, "slow": 3}
    assert side_by_side(here) == {"a", "b"}
    assert side_by_side({"a": 10 * MOST_BEHIND, "slow": 3}) == {"a"}
    assert side_by_side({"new": 10 * MOST_BEHIND, "a": 7, "b": 9}) == {"new", "a", "b"}
    assert side_by_side({}) == set()


def test_culprits_are_found_by_halving() -> None:
    tries: list[int] = []

    def failure(channels: object) -> Exception | None:
        assert isinstance(channels, list)
        tries.append(len(channels))
        return ValueError("no") if {"c17", "c60"} & set(channels) else None

    every = [f"c{number}" for number in range(100)]
    assert set(find_culprits(every, failure)) == {"c17", "c60"}
    assert len(tries) < 30


def test_failure_of_nobody_alone_has_no_culprit() -> None:
    def failure(channels: object) -> Exception | None:
        assert isinstance(channels, list)
        return ValueError("no") if len(channels) > 2 else None

    assert find_culprits(["a", "b", "c"], failure) == {}
