"""Acknowledgements: durable before they are confirmed, never backwards."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from broker_core.bench import Bench, Q, only, results, subscription
from tocsin.broker.machine import markers
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    Answer,
    Effect,
    Fail,
    Marker,
    NotAcked,
    StoreMarkers,
)
from tocsin.errors import InvalidInput, NotFound, TocsinError, Unavailable

AWAY = Unavailable("no answer")


def test_an_acknowledgement_is_confirmed_only_when_it_is_durable() -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.ack(2) == []
    assert bench.ack(3, request=Q) == []  # conflated
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]
    assert bench.core.tick(3.1) == []
    assert bench.core.markers_stored(()) == [Acked(5, "A", 3, [1], [Q])]
    assert bench.ack(2) == [Acked(5, "A", 3, [1], [])]  # never goes back


def test_what_is_acknowledged_together_is_confirmed_together() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6, backend=8, head=4), bench.core.query_token, 1.0)
    bench.grow(1, 3)
    together = [Marker(5, "A", 2), Marker(6, "A", 4), Marker(5, "A", 3), Marker(6, "old", 9)]
    assert bench.core.ack_many("alice", together, 2.0, 1) == [AckedMany(1, [Marker(6, "A", 0)])]
    stored = [Marker(5, "A", 3), Marker(6, "A", 4)]
    assert bench.core.tick(3.0) == [StoreMarkers(stored)]
    assert bench.core.markers_stored(()) == [AckedMany(1, stored)]
    assert bench.core.ack_many("alice", together[:2], 3.5, 1) == [AckedMany(1, stored)]


def test_of_what_is_acknowledged_together_each_is_refused_by_itself() -> None:
    bench = Bench()
    bench.grow(1, 3)
    given = [Marker(77, "A", 1), Marker(5, "A", 3)]
    refusal = only(bench.core.ack_many("alice", given, 2.0, 1), NotAcked)
    assert (refusal.subscription, refusal.connections) == (77, [1])
    bench.core.tick(3.0)
    late = [Marker(5, "A", 3)]
    assert bench.core.ack_many("mallory", late, 3.0, 2)[0].subscription == 5  # type: ignore[union-attr]
    (refusal,) = bench.core.markers_stored([5])  # type: ignore[assignment]
    assert (refusal.subscription, refusal.connections) == (5, [1])


def test_who_acknowledged_more_meanwhile_goes_on_waiting_for_it() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.core.ack_many("alice", [Marker(5, "A", 1)], 2.0, 1)
    bench.core.tick(3.0)
    bench.core.ack_many("alice", [Marker(5, "A", 2)], 3.0, 1)
    assert bench.core.markers_stored(()) == [AckedMany(1, [Marker(5, "A", 1)])]
    bench.core.tick(4.0)
    assert bench.core.markers_stored(()) == [AckedMany(1, [Marker(5, "A", 2)])]


def test_markers_that_could_not_be_stored_are_stored_again_with_newer_ones() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(1)
    bench.core.tick(3.0)
    bench.ack(2)
    bench.core.markers_failed(AWAY, 3.0)
    assert bench.core.tick(3.05) == []
    assert bench.core.tick(3.1) == [StoreMarkers([Marker(5, "A", 2)])]


def test_markers_that_could_not_be_stored_are_not_forgotten() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(1)
    bench.core.tick(3.0)
    bench.core.markers_failed(AWAY, 3.0)
    assert bench.core.tick(3.1) == [StoreMarkers([Marker(5, "A", 1)])]
    assert bench.core.markers_stored(()) == [Acked(5, "A", 1, [1], [])]


def test_an_acknowledgement_is_clamped_to_the_head_and_told_of_another_epoch() -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.ack(3, epoch="old") == [Acked(5, "A", 0, [1], [])]
    assert bench.core.tick(3.0) == []
    assert bench.ack(3, epoch="old", request=Q) == [Acked(5, "A", 0, [1], [Q])]
    bench.ack(99)
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]
    assert bench.core.markers_stored(()) == [Acked(5, "A", 3, [1], [])]
    assert bench.ack(99) == [Acked(5, "A", 3, [1], [])]


def test_who_acknowledges_what_is_not_theirs_is_told_by_whichever_way_they_asked() -> None:
    bench = Bench()
    bench.grow(1, 3)
    for subscriber, number in (("alice", 77), ("mallory", 5)):
        told = bench.core.ack(subscriber, number, "A", 1, 2.0, connection=1, request=Q)
        fail, refusal = told
        assert isinstance(fail, Fail)
        assert isinstance(refusal, NotAcked)
        assert fail.request == Q
        assert (refusal.subscription, refusal.connections) == (number, [1])
        assert isinstance(refusal.error, NotFound)


def test_an_acknowledgement_of_what_the_cluster_no_longer_has_is_answered() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(2, request=Q)
    bench.core.tick(3.0)
    fail, refusal = bench.core.markers_stored({5})
    assert isinstance(fail, Fail)
    assert isinstance(refusal, NotAcked)
    assert (refusal.subscription, refusal.connections) == (5, [1])


def acknowledging(numbers: Iterable[int]) -> Bench:
    """Alice has acknowledged something of all of these subscriptions."""
    bench = Bench()
    for number in numbers:
        bench.core.subscribed(subscription(number), bench.core.query_token, 0.5)
    bench.grow(1, 3)
    for number in numbers:
        bench.core.ack("alice", number, "A", 2, 2.0, connection=1)
    return bench


def _store(core: BrokerCore, poison: set[int], error: TocsinError) -> list[Effect]:
    """Store markers until none are left, at a cluster that refuses some."""
    effects: list[Effect] = []
    for turn in range(100):
        asked = core.tick(10.0 + turn)
        if not asked:
            return effects
        (store,) = asked
        assert isinstance(store, StoreMarkers)
        if poison & {marker.subscription for marker in store.markers}:
            effects += core.markers_failed(error, 10.0 + turn)
        else:
            effects += core.markers_stored(())
    raise AssertionError("it never ends")


@pytest.mark.parametrize("error", [InvalidInput("no marker"), TocsinError("an internal error")])
def test_a_marker_that_the_cluster_refuses_holds_up_no_other(error: TocsinError) -> None:
    numbers = range(11, 20)
    bench = acknowledging(numbers)
    effects = _store(bench.core, {13, 18}, error)
    acked = {effect.subscription for effect in effects if isinstance(effect, Acked)}
    refused = {effect.subscription for effect in effects if isinstance(effect, NotAcked)}
    assert (acked, refused) == (set(numbers) - {13, 18}, {13, 18})
    bench.core.ack("alice", 13, "A", 3, 3.0, connection=1)  # a further one is tried again
    assert bench.core.tick(200.0) == [StoreMarkers([Marker(13, "A", 3)])]


def test_many_markers_are_stored_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "MOST_AT_ONCE", 2)
    numbers = range(11, 16)
    bench = acknowledging(numbers)
    counts = []
    for _ in range(3):
        (store,) = bench.core.tick(3.0)
        assert isinstance(store, StoreMarkers)
        counts.append(len(store.markers))
        bench.core.markers_stored(())
    assert counts == [2, 2, 1]


def test_results_leave_the_cache_when_all_subscribers_took_them() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6, "bob"), bench.core.query_token, 0.0)
    bench.grow(1, 3)
    bench.ack(3)
    assert bench.core.cache.contents(7) == results(1, 3)
    bench.core.ack("bob", 6, "A", 2, 2.0)
    assert bench.core.cache.contents(7) == results(3, 3)
    bench.core.unsubscribed(6, 2.0)
    assert bench.core.cache.contents(7) == []


def test_acknowledgements_outlive_the_subscriptions_stay_here() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(3)
    bench.core.unsubscribed(5, 2.0)
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]
    # It comes back before the cluster has answered: what was acknowledged here counts.
    bench.core.subscribed(subscription(head=3, marker=0), bench.core.query_token, 3.1)
    assert only(bench.get(), Answer).after == 3
