"""What deliveries read: results by commit, whole, and numbers that are never given again."""

from __future__ import annotations

from tocsin.storage.store.deliveries import Consumer
from tocsin.storage.store.matches import Match
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store


def numbers(store: Store, channel: str, after: int = 0, limit: int = 100) -> list[int]:
    return [result.number for result in store.deliveries.read(channel, after, limit).results]


def test_results_come_in_the_order_of_commits_with_their_records(city: Store) -> None:
    flood, _ = city.subscriptions.subscribe("ann", "by_type", {"type": "flood"}, None)
    alert, _ = city.subscriptions.subscribe("ann", "alerts", {"type": "flood"}, None)
    rows = [(flood.backend.id, b"1"), (flood.backend.id, b"2")]
    city.runs.commit_run(Run("by_type", "b1", 1, 2.5), rows, [70, 71])
    city.matches.store([Match("alerts", alert.backend.id, 72, b"{}")])
    city.runs.commit_run(Run("by_type", "b2", 3, 4), rows[:1])
    batch = city.deliveries.read("by_type", 0, 100)
    assert [tuple(result) for result in batch.results] == [
        (1, flood.backend.id, 1, 2.5, 70, b"1", '{"type":"flood"}'),
        (2, flood.backend.id, 2, 2.5, 71, b"2", '{"type":"flood"}'),
        (4, flood.backend.id, 3, 4.0, None, b"1", '{"type":"flood"}'),
    ]
    assert (batch.upto, batch.all_, city.deliveries.last_number()) == (4, True, 4)
    assert [result.record for result in city.deliveries.read("alerts", 0, 9).results] == [72]
    assert numbers(city, "by_type", after=2) == [4]


def test_a_commit_is_not_torn_apart(city: Store) -> None:
    flood, _ = city.subscriptions.subscribe("ann", "by_type", {"type": "flood"}, None)
    for number in range(3):
        rows = [(flood.backend.id, b"{}")] * 4
        city.runs.commit_run(Run("by_type", f"b{number}", 1, 2 + number), rows)
    batch = city.deliveries.read("by_type", 0, 5)
    assert ([result.number for result in batch.results], batch.upto, batch.all_) == (
        list(range(1, 9)),
        8,
        False,
    )
    assert numbers(city, "by_type", after=8, limit=5) == [9, 10, 11, 12]


def test_numbers_grow_on_when_all_results_are_gone(city: Store) -> None:
    mine, _ = city.subscriptions.subscribe("ann", "by_type", {"type": "flood"}, None)
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(mine.backend.id, b"{}")] * 3)
    city.subscriptions.unsubscribe(mine.id)
    again, _ = city.subscriptions.subscribe("ann", "by_type", {"type": "flood"}, None)
    city.runs.commit_run(Run("by_type", "b2", 1, 2), [(again.backend.id, b"{}")])
    assert numbers(city, "by_type") == [4]


def test_consumers_are_the_frontend_subscriptions_of_a_channel(city: Store) -> None:
    ann, _ = city.subscriptions.subscribe("ann", "by_type", {"type": "flood"}, None)
    city.runs.commit_run(Run("by_type", "b1", 1, 2), [(ann.backend.id, b"{}")] * 3)
    bob, _ = city.subscriptions.subscribe("bob", "by_type", {"type": "flood"}, None)
    fire, _ = city.subscriptions.subscribe("bob", "by_type", {"type": "fire"}, None)
    city.subscriptions.subscribe("bob", "alerts", {"type": "fire"}, None)
    wanted = [
        Consumer(ann.id, "by_type", ann.backend.id, 0, 3, "ann"),
        Consumer(bob.id, "by_type", ann.backend.id, 3, 3, "bob"),
        Consumer(fire.id, "by_type", fire.backend.id, 0, 0, "bob"),
    ]
    assert city.deliveries.consumers("by_type") == wanted
    assert city.deliveries.consumers("by_type", {ann.backend.id}) == wanted[:2]
    assert city.deliveries.consumers_by_id([bob.id, 999]) == wanted[1:2]
