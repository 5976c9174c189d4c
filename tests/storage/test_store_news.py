"""News: a broker that asks from where it left off hears every head and every departure."""

from __future__ import annotations

import pytest

from tocsin.errors import NotFound
from tocsin.model import Departure, Head
from tocsin.storage.store.news import DETACHMENTS_KEPT_S
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import Clock

FLOOD = {"type": "flood"}


def test_a_new_head_is_news_for_the_brokers_that_serve_it_only(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    sequence, listed = city.subscriptions.of_broker("north")
    assert listed == [made]
    committed = city.runs.commit_run(Run("by_type", "b1", 1, 2), [(made.backend.id, b"{}")] * 2)
    assert committed is not None
    head = Head(made.backend.id, made.backend.epoch, 2)
    assert committed.heads == [head]
    assert city.subscriptions.news("north", sequence) == (committed.sequence, [head], [])
    assert city.subscriptions.news("south", sequence) == (committed.sequence, [], [])
    assert city.subscriptions.news("north", committed.sequence) == (committed.sequence, [], [])


def test_asking_again_from_the_same_sequence_tells_the_same_again(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(made.backend.id, b"{}")])
    assert city.subscriptions.news("north", 0) == city.subscriptions.news("north", 0)


def test_a_backend_subscription_of_many_is_told_once(city: Store) -> None:
    for name in ("alice", "bob", "carol"):
        made, _ = city.subscriptions.subscribe(name, "by_type", FLOOD, "north")
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(made.backend.id, b"{}")])
    _, heads, _ = city.subscriptions.news("north", 0)
    assert heads == [Head(made.backend.id, made.backend.epoch, 1)]


def test_a_brokers_subscriptions_come_by_pages_of_some_number_and_bytes(city: Store) -> None:
    made = [
        city.subscriptions.subscribe("alice", "by_type", {"type": kind * 100}, "north")[0]
        for kind in "abcde"
    ]
    city.subscriptions.subscribe("alice", "by_type", {"type": "elsewhere"}, "south")
    page = city.subscriptions.page_of_broker
    for limit, most_bytes in ((2, 1 << 20), (100, 201)):  # {"type":"aaa…"}: 111 bytes
        first = page("north", 0, limit, most_bytes)
        assert (first.subscriptions, first.upto) == (made[:2], made[1].id)
        assert first.sequence == city.sequence()
        second = page("north", made[1].id, limit, most_bytes)
        assert (second.subscriptions, second.upto) == (made[2:4], made[3].id)
        assert page("north", made[3].id, limit, most_bytes)[1:] == (made[4:], None)
    assert page("north", 0, 100, 0)[1:] == (made[:1], made[0].id)  # one at least
    assert page("north", 0, 5, 1 << 20)[1:] == (made, None)
    assert page("north", made[4].id, 5, 1 << 20)[1:] == ([], None)
    with pytest.raises(NotFound):
        page("ghost", 0, 5, 1)


def test_a_move_is_a_departure_here_and_a_head_there(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(made.backend.id, b"{}")])
    sequence, _ = city.subscriptions.of_broker("south")
    city.subscriptions.move(made.id, "south")
    head = Head(made.backend.id, made.backend.epoch, 1)
    assert city.subscriptions.news("north", sequence)[1:] == ([], [Departure(made.id, "south")])
    assert city.subscriptions.news("south", sequence)[1:] == ([head], [])


def test_every_way_to_leave_a_broker_is_told(city: Store) -> None:
    subscribe = city.subscriptions.subscribe
    a, _ = subscribe("alice", "by_type", {"type": "a"}, "north")
    b, _ = subscribe("bob", "by_type", {"type": "b"}, "north")
    c, _ = subscribe("carol", "by_type", {"type": "c"}, "north")
    d, _ = subscribe("dave", "by_type", {"type": "d"}, "north")
    sequence, _ = city.subscriptions.of_broker("north")
    city.subscriptions.unsubscribe(a.id)
    city.subscriptions.attach("bob", "south")
    city.subscriptions.move(c.id, "south")
    city.subscriptions.move(d.id, "south")
    city.subscriptions.unsubscribe(d.id)
    assert city.subscriptions.news("north", sequence)[2] == [
        Departure(a.id),
        Departure(b.id, "south"),
        Departure(c.id, "south"),
        Departure(d.id),
    ]


def test_one_that_came_back_has_not_left(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    sequence, _ = city.subscriptions.of_broker("north")
    city.subscriptions.move(made.id, "south")
    city.subscriptions.move(made.id, "north")
    assert city.subscriptions.news("north", sequence)[2] == []
    assert city.subscriptions.news("south", sequence)[2] == [Departure(made.id, "north")]


def test_moving_to_where_it_is_changes_nothing(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    sequence, _ = city.subscriptions.of_broker("north")
    city.subscriptions.move(made.id, "north")
    city.subscriptions.attach("alice", "north")
    assert city.subscriptions.news("north", sequence) == (sequence, [], [])


def test_departures_are_remembered_for_a_day(city: Store, clock: Clock) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    city.subscriptions.unsubscribe(made.id)
    clock.now += DETACHMENTS_KEPT_S
    city.results.expire(before=0)
    assert city.subscriptions.news("north", 0)[2] == [Departure(made.id)]
    clock.now += 1
    city.results.expire(before=0)
    assert city.subscriptions.news("north", 0)[2] == []


def test_an_unknown_broker_has_no_news(city: Store) -> None:
    with pytest.raises(NotFound, match="no broker ghost"):
        city.subscriptions.news("ghost", 0)
    with pytest.raises(NotFound, match="no broker ghost"):
        city.subscriptions.of_broker("ghost")


def test_the_sequence_grows_across_reopening(url: str, city: Store) -> None:
    city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    before, _ = city.subscriptions.of_broker("north")
    city.close()
    with Store.open(url) as again:
        again.subscriptions.subscribe("bob", "by_type", FLOOD, "north")
        assert again.subscriptions.of_broker("north")[0] > before > 0
