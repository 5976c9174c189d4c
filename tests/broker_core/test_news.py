"""Notices are hints; what takes something away is believed from news alone, if they are new."""

from __future__ import annotations

from broker_core.bench import Bench, answer, gone, heads, only, results, subscription
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    AskNews,
    Fetch,
    Signal,
)
from tocsin.policies import parse_policy


def test_a_notice_that_something_left_is_only_a_hint_to_ask() -> None:
    bench = Bench()
    assert bench.core.notice([], gone(), 1.0) == [AskNews(10)]
    assert bench.core.notice([], gone(), 1.1) == []  # one question at a time
    assert 5 in bench.core.table.frontends
    bench.core.news(12, [], gone(), 1.2)
    assert bench.core.table.frontends == {}


def test_news_older_than_the_return_of_a_subscriber_do_not_send_it_away() -> None:
    bench = Bench()
    bench.core.notice([], gone(), 1.0)  # asks
    bench.core.connected(2, "alice", False, [subscription()], bench.core.query_token, 1.1)
    effects = bench.core.news(12, [], gone(to="west"), 1.2)
    assert effects == [AskNews(10)]  # asked again instead
    assert bench.core.news(14, [], [], 1.3) == []
    assert 5 in bench.core.table.frontends


def test_news_move_the_sequence_and_an_attachment_moves_it_back() -> None:
    bench = Bench()
    asked = bench.core.query_token  # sequence 10
    bench.core.notice([], gone(), 1.0)
    bench.core.news(20, [], [], 1.0)
    assert bench.core.query_token.sequence == 20
    # Heads of backend 8 between 10 and 20 were not heard: it was unknown here.
    bench.core.subscribed(subscription(6, backend=8), asked, 2.0)
    assert bench.core.query_token.sequence == 10


def test_news_under_way_while_something_is_attached_are_asked_for_again() -> None:
    bench = Bench()
    asked = bench.core.query_token  # sequence 10
    bench.core.notice([], gone(), 1.0)  # asks
    bench.core.subscribed(subscription(6, backend=8), asked, 1.1)
    bench.core.news(20, [], [], 1.2)  # told before 8 was known here, perhaps
    assert bench.core.query_token.sequence == 10


def test_a_notice_of_another_epoch_is_believed_only_when_news_say_so() -> None:
    bench = Bench()
    bench.grow(1, 3)
    effects = bench.core.notice(heads(1, epoch="B"), [], 2.0)
    assert effects == [AskNews(10)]
    assert bench.core.cache.contents(7) == results(1, 3)
    fetch = only(bench.core.news(12, heads(1, epoch="B"), [], 2.1), Fetch)
    assert (fetch.after, fetch.upto) == (0, 1)
    assert bench.core.cache.contents(7) == []
    effects = bench.core.fetched(fetch.fetch, answer(1, 1, epoch="B"), 2.2)
    assert effects == [Signal(7, "B", 1, [1])]


def test_an_answer_of_a_past_epoch_is_fetched_again() -> None:
    bench = Bench()
    old = only(bench.core.notice(heads(3), [], 1.0), Fetch)
    bench.core.notice(heads(1, epoch="B"), [], 2.0)
    bench.core.news(12, heads(2, epoch="B"), [], 2.1)
    again = only(bench.core.fetched(old.fetch, answer(1, 3), 2.2), Fetch)
    assert (again.after, again.upto) == (0, 2)
    assert bench.core.cache.contents(7) == []


def test_news_are_asked_for_at_intervals_even_if_they_fail() -> None:
    core = BrokerCore(parse_policy("lsc"), 1000, 0.0, news_poll_s=2.0)
    assert core.tick(5.0) == []  # nothing is known yet
    core.loaded(1, [], core.query_token, 5.0)
    core.news_failed(5.1)
    assert core.tick(7.0) == []
    assert core.tick(7.1) == [AskNews(1)]
    core.news(4, [], [], 7.2)
    assert core.tick(9.0) == []
    assert core.tick(9.1) == [AskNews(4)]


def test_an_answer_asked_for_before_anything_was_loaded_is_no_reason_to_miss_a_departure() -> None:
    core = BrokerCore(parse_policy("lru"), 1000, 0.0)
    asked = core.query_token  # of somebody who came while the store was being replaced
    core.loaded(10, [subscription()], core.query_token, 0.1)
    core.news(12, [], gone(to="west"), 0.2)
    assert core.table.frontends == {}
    core.subscribed(subscription(), asked, 0.3)  # as it was before it left
    assert core.query_token.sequence == 0
    asked_again = core.tick(100.0)
    assert AskNews(0) in asked_again
    core.news(12, [], gone(to="west"), 100.1)
    assert core.table.frontends == {}


def test_an_answer_that_comes_before_the_load_has_all_news_told() -> None:
    core = BrokerCore(parse_policy("lru"), 1000, 0.0)
    core.subscribed(subscription(), core.query_token, 0.1)
    assert AskNews(0) in core.loaded(10, [], core.query_token, 0.2)


def asks(bench: Bench, first: int, *moments: float, at_notices: bool = True) -> list[float]:
    """When it asks, of moments at which notices come in order and the clock ticks."""
    asked = []
    for number, now in enumerate(moments, first):
        if at_notices:
            bench.core.notice([], [], now, number=number)
        if any(isinstance(effect, AskNews) for effect in bench.core.tick(now)):
            asked.append(now)
            bench.core.news(10, [], [], now)
    return asked


def test_while_each_notice_follows_the_last_nothing_is_asked_for_a_while() -> None:
    bench = Bench(news_poll_s=2.0)
    bench.core.notice([], gone(), 0.0, number=99)
    bench.core.news(10, [], [], 0.0)
    assert asks(bench, 100, *range(1, 45)) == [20, 40]
    assert asks(bench, 0, 45, 46, 47, 48, 49, at_notices=False) == [46, 48]


def test_a_notice_that_is_missing_is_asked_for_at_once() -> None:
    bench = Bench(news_poll_s=2.0)
    bench.core.notice([], gone(), 0.0, number=99)
    bench.core.news(10, [], [], 0.0)
    assert asks(bench, 100, 0.5) == []
    assert asks(bench, 100, 0.6) == []  # it came twice
    assert asks(bench, 102, 0.7) == [0.7]
    assert asks(bench, 5, 0.8) == [0.8]  # another cluster, or a late one


def test_what_came_with_an_attachment_is_not_put_off_by_notices() -> None:
    bench = Bench(news_poll_s=2.0)
    bench.core.notice([], gone(), 0.0, number=99)
    bench.core.news(10, [], [], 0.0)
    asked = bench.core.query_token
    assert asks(bench, 100, 1.0) == []
    bench.core.subscribed(subscription(6, backend=8), asked, 1.5)
    assert asks(bench, 101, 2.0, 2.5, 3.0, 3.5, 4.0) == [3.0]
