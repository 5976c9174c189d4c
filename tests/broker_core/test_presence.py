"""Connections come and go: the cache is told who is away, and since when."""

from __future__ import annotations

import pytest

from broker_core.bench import Bench, answer, gone, heads, only, subscription
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Fetch
from tocsin.model import Subscription
from tocsin.policies import parse_policy


class Told(Bench):
    """With one object cached, so that somebody waits; and what the cache learns of absences."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("return-rate")
        self.grow(1, 1)
        self.absences: list[tuple[float, bool]] = []
        monkeypatch.setattr(
            self.core.cache,
            "_observers",
            [lambda away_s, returned: self.absences.append((away_s, returned))],
        )

    def connect(self, connection: int, now: float, *held: Subscription) -> None:
        moment = self.core.query_token
        self.core.connected(connection, "alice", False, held or [subscription()], moment, now)

    @property
    def presence(self) -> tuple[int, int, int, int]:
        candidate = self.core.cache.candidate(7)
        return candidate.attached, candidate.online, candidate.waiting, candidate.present


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def test_a_subscriber_is_away_from_its_last_connection_to_its_next_first(bench: Told) -> None:
    assert bench.presence == (1, 1, 1, 1)
    bench.core.disconnected(1, 10.0)
    assert bench.presence == (1, 0, 1, 0)
    bench.connect(2, 17.0)
    assert bench.presence == (1, 1, 1, 1)
    assert bench.absences == [(7.0, True)]


def test_one_of_two_connections_is_enough_to_be_there(bench: Told) -> None:
    bench.connect(2, 5.0)
    bench.core.disconnected(1, 10.0)
    assert bench.presence == (1, 1, 1, 1)
    bench.core.disconnected(1, 11.0)  # told twice
    assert bench.presence == (1, 1, 1, 1)
    bench.core.disconnected(2, 12.0)
    assert bench.presence == (1, 0, 1, 0)
    assert bench.absences == []


def test_all_subscriptions_of_a_subscriber_come_and_go_with_it(bench: Told) -> None:
    bench.core.subscribed(subscription(6, head=1, marker=1), bench.core.query_token, 3.0)
    bench.core.subscribed(subscription(8, "bob", head=1), bench.core.query_token, 3.0)
    assert bench.presence == (3, 2, 2, 1)  # bob was never here
    bench.core.disconnected(1, 10.0)
    assert bench.presence == (3, 0, 2, 0)
    bench.connect(2, 11.0, subscription(), subscription(6))
    assert bench.presence == (3, 2, 2, 1)
    assert bench.absences == [(1.0, True), (1.0, True)]


def test_a_subscription_made_while_connected_is_there_at_once(bench: Told) -> None:
    bench.core.subscribed(subscription(6, head=1), bench.core.query_token, 3.0)
    assert bench.presence == (2, 2, 2, 2)


def test_whoever_is_attached_and_connected_in_one_step_was_not_away(bench: Told) -> None:
    bench.core.connected(2, "bob", False, [subscription(6, "bob")], bench.core.query_token, 3.0)
    assert bench.presence == (2, 2, 2, 2)
    assert bench.absences == []


def test_a_subscription_given_up_while_away_ends_the_absence_without_a_return(
    bench: Told,
) -> None:
    bench.core.subscribed(subscription(6, "bob", head=1), bench.core.query_token, 3.0)
    bench.core.unsubscribed(6, 8.0)
    assert bench.presence == (1, 1, 1, 1)
    assert bench.absences == [(5.0, False)]
    bench.core.unsubscribed(5, 9.0)  # who is connected was not away
    assert bench.absences == [(5.0, False)]


def test_whoever_takes_results_without_a_connection_stays_away(bench: Told) -> None:
    bench.core.subscribed(subscription(6, "bob", head=1), bench.core.query_token, 3.0)
    bench.grow(2, 2, 4.0)
    bench.core.ack("bob", 6, "A", 1, 5.0)
    assert bench.presence == (2, 1, 1, 1)  # alice alone waits for the first
    bench.ack(2)
    assert bench.presence == (2, 1, 1, 0)  # bob alone for the second
    bench.core.unsubscribed(6, 9.0)
    assert bench.absences == [(6.0, False)]


def test_a_subscriber_that_was_moved_is_away_for_what_is_still_here(bench: Told) -> None:
    bench.core.subscribed(subscription(6, backend=8), bench.core.query_token, 3.0)
    bench.core.notice([], gone(6), 4.0)
    bench.core.news(12, [], gone(6, to="west"), 5.0)
    assert bench.core.table.connections == {}
    assert bench.presence == (1, 0, 1, 0)
    bench.core.unsubscribed(5, 8.0)
    assert bench.absences == [(3.0, False)]


def test_a_connection_that_changes_hands_takes_its_first_subscriber_away(bench: Told) -> None:
    bench.core.connected(1, "bob", False, [subscription(6, "bob")], bench.core.query_token, 10.0)
    assert bench.presence == (2, 1, 2, 1)
    bench.connect(2, 12.0)
    assert bench.presence == (2, 2, 2, 2)
    assert bench.absences == [(2.0, True)]


def test_a_new_epoch_changes_nobodys_presence(bench: Told) -> None:
    bench.core.subscribed(subscription(6, "bob", head=1), bench.core.query_token, 3.0)
    bench.core.notice(heads(1, epoch="B"), [], 4.0)  # a hint: it is asked for
    effects = bench.core.news(12, heads(1, epoch="B"), [], 5.0)
    bench.core.fetched(only(effects, Fetch).fetch, answer(1, 1, epoch="B"), 5.5)
    assert bench.presence == (2, 1, 2, 1)
    held = subscription(6, "bob", epoch="B", head=1)
    bench.core.connected(2, "bob", False, [held], bench.core.query_token, 7.0)
    assert bench.presence == (2, 2, 2, 2)
    assert bench.absences == [(4.0, True)]


def test_after_a_start_everybody_is_away_until_they_connect() -> None:
    core = BrokerCore(parse_policy("return-rate"), 1000, 100.0)
    core.loaded(10, [subscription(), subscription(6, "bob")], core.query_token, 100.0)
    fetch = only(core.news(11, heads(1), [], 101.0), Fetch)
    core.fetched(fetch.fetch, answer(1, 1), 102.0)
    assert (core.cache.candidate(7).attached, core.cache.candidate(7).online) == (2, 0)
    core.connected(1, "alice", False, [subscription(head=1)], core.query_token, 103.0)
    assert core.cache.candidate(7).online == 1
