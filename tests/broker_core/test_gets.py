"""Gets: the cached suffix and the missed part in one ordered answer."""

from __future__ import annotations

from broker_core.bench import Bench, Q, R, S, answer, heads, only, results, subscription
from tocsin.broker.machine.effects import (
    Answer,
    Fail,
    Fetch,
    Gap,
    Signal,
)
from tocsin.broker.machine.events import Cursor, RangeAnswer
from tocsin.errors import NotFound, Unavailable
from tocsin.policies import parse_policy


def test_without_a_cache_signals_go_at_once_and_gets_read_the_store() -> None:
    bench = Bench("none")
    assert bench.core.notice(heads(3), [], 1.0) == [Signal(7, "A", 3, [1])]
    fetch = only(bench.get(0), Fetch)
    assert (fetch.after, fetch.upto, fetch.ahead) == (0, 3, False)
    told = only(bench.core.fetched(fetch.fetch, answer(1, 3), 2.5), Answer)
    assert (told.results, told.cached, told.fetched) == (results(1, 3), 0, 3)


def test_a_get_is_fetched_and_cached_parts_in_one_ordered_answer() -> None:
    bench = Bench(budget_bytes=20)
    bench.grow(1, 4)  # 3 and 4 fit
    fetch = only(bench.get(0), Fetch)
    assert (fetch.after, fetch.upto) == (0, 2)
    told = only(bench.core.fetched(fetch.fetch, answer(1, 2, head=4), 3.0), Answer)
    assert told.results == results(1, 4)
    assert (told.fetched, told.cached, told.after, told.upto, told.head) == (2, 2, 0, 4, 4)
    assert (bench.core.cache.counters.hits, bench.core.cache.counters.misses) == (2, 2)
    assert bench.core.cache.contents(7) == results(3, 4)  # missed ones are not put back


def test_an_answer_shorter_than_asked_leaves_no_hole_before_the_cached_part() -> None:
    bench = Bench(budget_bytes=20)
    bench.grow(1, 5)
    fetch = only(bench.get(0), Fetch)
    told = only(bench.core.fetched(fetch.fetch, answer(1, 2, head=5), 3.0), Answer)
    assert (told.results, told.upto, told.head, told.cached) == (results(1, 2), 2, 5, 0)


def test_gets_that_miss_the_same_share_one_fetch() -> None:
    bench = Bench("none")
    bench.core.subscribed(subscription(6, "bob"), bench.core.query_token, 0.0)
    bench.core.notice(heads(3), [], 1.0)
    fetch = only(bench.get(0), Fetch)
    assert bench.core.get(S, "bob", 6, 2.0, Cursor(0)) == []
    effects = bench.core.fetched(fetch.fetch, answer(1, 3), 3.0)
    assert [e.request for e in effects if isinstance(e, Answer)] == [R, S]


def test_a_get_honours_limit_and_head_and_starts_at_the_marker() -> None:
    bench = Bench()
    bench.grow(1, 5)
    limited = only(bench.get(1, limit=2), Answer)
    assert (limited.results, limited.upto, limited.head) == (results(2, 3), 3, 5)
    bench.ack(4)
    from_marker = only(bench.get(), Answer)
    assert (from_marker.results, from_marker.after) == (results(5, 5), 4)
    beyond = only(bench.get(9), Answer)
    assert (beyond.results, beyond.upto) == ([], 9)


def test_what_retention_took_is_told_as_a_gap() -> None:
    bench = Bench("none")
    bench.core.notice(heads(6), [], 1.0)
    fetch = only(bench.get(1), Fetch)
    told = only(bench.core.fetched(fetch.fetch, answer(5, 6, floor=4), 2.5), Answer)
    assert told.gap == Gap(2, 4)
    assert told.results == results(5, 6)


def test_what_is_still_cached_is_no_gap() -> None:
    bench = Bench(budget_bytes=20)
    bench.grow(1, 4)
    fetch = only(bench.get(0), Fetch)
    told = only(bench.core.fetched(fetch.fetch, RangeAnswer("A", 4, 4, []), 2.5), Answer)
    assert told.gap == Gap(1, 2)
    assert told.results == results(3, 4)


def test_a_cursor_of_another_epoch_is_answered_from_the_beginning() -> None:
    bench = Bench()
    bench.grow(1, 2)
    told = only(bench.get(90, epoch="old"), Answer)
    assert (told.epoch, told.after, told.results) == ("A", 0, results(1, 2))


def test_a_get_while_the_cluster_does_not_answer_says_ask_again() -> None:
    bench = Bench("none")
    bench.core.notice(heads(3), [], 1.0)
    fetch = only(bench.get(0), Fetch)
    failure = only(bench.core.fetch_failed(fetch.fetch, 3.0), Fail)
    assert failure.request == R
    assert isinstance(failure.error, Unavailable)


def test_nobody_reads_anothers_subscription() -> None:
    bench = Bench()
    assert isinstance(only(bench.core.get(R, "eve", 5, 1.0), Fail).error, NotFound)
    refused = bench.core.ack("eve", 5, "A", 1, 1.0, request=Q)
    assert isinstance(only(refused, Fail).error, NotFound)


def test_a_waiting_get_is_answered_when_results_come_or_its_time_is_up() -> None:
    bench = Bench()
    assert bench.get(0, wait_until=30.0) == []
    assert only(bench.grow(1, 1), Answer).results == results(1, 1)
    assert bench.get(1, wait_until=30.0) == []
    assert bench.core.tick(29.9) == []
    assert only(bench.core.tick(30.0), Answer).results == []
    assert bench.core.tick(31.0) == []


def test_switching_the_policy_at_run_time_loses_nothing() -> None:
    bench = Bench()
    bench.grow(1, 3)
    bench.core.set_policy(parse_policy("none"), 1.5)
    fetch = only(bench.get(0), Fetch)
    told = only(bench.core.fetched(fetch.fetch, answer(1, 3), 2.5), Answer)
    assert told.results == results(1, 3)
    bench.core.set_policy(parse_policy("lru"), 3.0)
    bench.grow(4, 4, 3.5)
    assert bench.core.cache.contents(7) == results(4, 4)
