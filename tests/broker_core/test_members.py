"""Who comes, ends, moves and comes back, and who is told."""

from __future__ import annotations

from broker_core.bench import Bench, R, answer, gone, heads, only, subscription
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    AskNews,
    CloseConnection,
    Ended,
    Fetch,
    Signal,
)
from tocsin.policies import parse_policy


def test_a_subscription_that_ended_is_told_and_its_subscriber_stays() -> None:
    bench = Bench()
    bench.core.notice([], gone(), 1.0)
    assert bench.core.news(12, [], gone(to=None), 1.2) == [Ended(5, [1])]
    assert bench.core.table.backends == {}
    assert bench.core.table.connections == {1: "alice"}
    bench.core.subscribed(subscription(6), bench.core.query_token, 1.3)
    assert bench.grow(1, 1) == [Signal(7, "A", 1, [1])]


def test_a_subscriber_that_was_moved_is_sent_there_with_all_it_has() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6, backend=8), bench.core.query_token, 0.5)
    bench.core.notice([], gone(), 1.0)
    assert bench.core.news(12, [], gone(to="west"), 1.2) == [CloseConnection(1, "west")]
    assert bench.core.table.connections == {}
    assert set(bench.core.table.frontends) == {6}  # until it has arrived there


def test_unsubscribing_is_told_to_all_connections_of_the_subscriber_once() -> None:
    bench = Bench()
    bench.core.connected(2, "alice", False, [subscription()], bench.core.query_token, 0.5)
    bench.core.connected(3, "bob", False, [subscription(6, "bob")], bench.core.query_token, 0.5)
    assert bench.core.unsubscribed(5, 1.0) == [Ended(5, [1, 2])]
    assert bench.core.unsubscribed(5, 1.0) == []
    bench.core.tick(2000.0)  # asks
    assert bench.core.news(12, [], gone(), 2000.1) == []


def test_a_new_connection_that_finds_a_subscription_gone_tells_the_older_ones() -> None:
    bench = Bench()
    effects = bench.core.connected(2, "alice", False, [], bench.core.query_token, 1.0)
    assert effects == [Ended(5, [1])]


def test_a_subscription_taken_again_goes_on_when_the_old_one_is_gone() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6), bench.core.query_token, 0.5)  # overtakes the next
    bench.core.unsubscribed(5, 0.6)
    assert bench.grow(1, 1) == [Signal(7, "A", 1, [1])]


def test_a_connection_hears_of_results_that_came_while_it_was_being_attached() -> None:
    bench = Bench()
    asked = bench.core.query_token
    bench.grow(1, 3)
    effects = bench.core.connected(2, "alice", False, [subscription(head=1)], asked, 2.0)
    assert effects == [Signal(7, "A", 3, [2])]
    assert bench.core.current(subscription(head=1)).backend.head == 3


def test_after_a_crash_load_and_news_restore_everything() -> None:
    core = BrokerCore(parse_policy("lsc"), 1000, 0.0)
    effects = core.loaded(88, [subscription(head=12, marker=3)], core.query_token, 0.0)
    assert effects == [AskNews(88)]
    fetch = only(core.news(93, heads(14), [], 0.1), Fetch)
    assert (fetch.after, fetch.upto) == (12, 14)
    core.connected(1, "alice", False, [subscription(head=14, marker=3)], core.query_token, 0.2)
    assert core.fetched(fetch.fetch, answer(13, 14), 0.3) == [Signal(7, "A", 14, [1])]
    missed = only(core.get(R, "alice", 5, 0.4), Fetch)
    assert (missed.after, missed.upto) == (3, 12)


def test_loading_anew_drops_what_is_no_longer_here_and_lets_its_client_come_again() -> None:
    bench = Bench()
    asked = bench.core.query_token
    bench.core.subscribed(subscription(6, "bob"), bench.core.query_token, 1.0)  # after we asked
    effects = bench.core.loaded(20, [], asked, 1.1)
    assert CloseConnection(1, None) in effects
    assert set(bench.core.table.frontends) == {6}
