"""Matches of real-time mode: stored once each and in order, however often they come."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.storage.store.matches import Match
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store

TOPIC = "tocsin.matches"


@pytest.fixture(name="backend")
def _backend(city: Store) -> int:
    made, _ = city.subscriptions.subscribe("ann", "alerts", {"type": "flood"}, None)
    return made.backend.id


def found(backend: int, *positions: int) -> list[Match]:
    return [Match("alerts", backend, each, b'{"p":%d}' % each) for each in positions]


def taken(store: Store, matches: list[Match], up_to: int) -> list[Committed]:
    committed, place = store.matches.commit(store.matches.begin(TOPIC)[0], matches, up_to)
    assert store.matches.places(TOPIC) == {0: place}
    return committed


def counts(committed: Committed) -> dict[int, int]:
    return Counter(result.backend for result in committed.results)


def stored(store: Store, backend: int) -> list[tuple[int, bytes]]:
    results = store.results.read(backend, 0, 1000, 1000).results
    return [(one.position, one.payload) for one in results]


def test_matches_get_positions_in_the_order_they_come(city: Store, backend: int) -> None:
    (first,) = taken(city, found(backend, 7, 3), 2)
    assert (first.channel, first.count, counts(first)) == ("alerts", 2, {backend: 2})
    assert first.heads[0].head == 2
    assert [(one.position, one.payload) for one in first.results] == stored(city, backend)
    assert stored(city, backend) == [(1, b'{"p":7}'), (2, b'{"p":3}')]


def test_match_that_comes_again_is_dropped(city: Store, backend: int) -> None:
    taken(city, found(backend, 1, 2), 2)
    (second,) = taken(city, found(backend, 2, 3, 3), 5)
    assert counts(second) == {backend: 1}
    assert [position for position, _ in stored(city, backend)] == [1, 2, 3]
    assert taken(city, found(backend, 1, 2, 3), 8) == []
    assert len(stored(city, backend)) == 3


def test_how_far_they_were_read_is_stored_with_them(city: Store, backend: int) -> None:
    assert city.matches.read_up_to(TOPIC) == 0
    taken(city, found(backend, 1), 10)
    assert city.matches.read_up_to(TOPIC) == 10
    taken(city, [], 12)
    assert city.matches.read_up_to(TOPIC) == 12
    assert city.matches.read_up_to("another") == 0


def test_matches_of_subscriptions_that_ended_are_dropped(city: Store, backend: int) -> None:
    mine = city.subscriptions.of_subscriber("ann")[0]
    city.subscriptions.unsubscribe(mine.id)
    assert taken(city, found(backend, 1), 1) == []
    assert city.matches.read_up_to(TOPIC) == 1


def test_same_record_may_match_two_subscriptions_and_two_channels(
    city: Store, backend: int
) -> None:
    other, _ = city.subscriptions.subscribe("bob", "alerts", {"type": "fire"}, None)
    third, _ = city.subscriptions.subscribe("bob", "by_type", {"type": "fire"}, None)
    told = taken(
        city,
        [
            Match("alerts", backend, 5, b"{}"),
            Match("by_type", third.backend.id, 5, b"{}"),
            Match("alerts", other.backend.id, 5, b"{}"),
        ],
        3,
    )
    assert {one.channel: counts(one) for one in told} == {
        "alerts": {backend: 1, other.backend.id: 1},
        "by_type": {third.backend.id: 1},
    }
