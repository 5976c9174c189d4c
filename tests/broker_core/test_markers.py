"""Acknowledgements: durable before they are confirmed, never backwards."""

from __future__ import annotations

from broker_core.bench import Bench, Q, only, results, subscription
from tocsin.broker.machine.effects import (
    Acked,
    Answer,
    Fail,
    Marker,
    NotAcked,
    StoreMarkers,
)
from tocsin.errors import NotFound


def test_an_acknowledgement_is_confirmed_only_when_it_is_durable() -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.ack(2) == []
    assert bench.ack(3, request=Q) == []  # conflated
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]
    assert bench.core.tick(3.1) == []
    assert bench.core.markers_stored(()) == [Acked(5, "A", 3, [1], [Q])]
    assert bench.ack(2) == [Acked(5, "A", 3, [1], [])]  # never goes back


def test_markers_that_could_not_be_stored_are_stored_again_with_newer_ones() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(1)
    bench.core.tick(3.0)
    bench.ack(2)
    bench.core.markers_failed(3.0)
    assert bench.core.tick(3.05) == []
    assert bench.core.tick(3.1) == [StoreMarkers([Marker(5, "A", 2)])]


def test_markers_that_could_not_be_stored_are_not_forgotten() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.ack(1)
    bench.core.tick(3.0)
    bench.core.markers_failed(3.0)
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
