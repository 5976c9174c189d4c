"""New results: fetched or pushed, cached, and only then told to those who are online."""

from __future__ import annotations

import pytest

from broker_core.bench import Bench, answer, heads, only, result, results, subscription
from tocsin.broker.machine import results as intake
from tocsin.broker.machine.effects import (
    Fetch,
    SendInline,
    Signal,
)
from tocsin.broker.machine.events import NewHead, RangeAnswer
from tocsin.model import Result


def test_a_notice_is_fetched_then_cached_and_only_then_signalled() -> None:
    bench = Bench()
    effects = bench.core.notice(heads(3), [], 1.0)
    fetch = only(effects, Fetch)
    assert (fetch.after, fetch.upto, fetch.ahead) == (0, 3, True)
    assert len(effects) == 1
    effects = bench.core.fetched(fetch.fetch, answer(1, 3), 1.5)
    assert effects == [Signal(7, "A", 3, [1])]
    assert bench.core.cache.contents(7) == results(1, 3)


def test_newer_heads_conflate_while_a_fetch_is_under_way() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(3), [], 1.0), Fetch)
    assert bench.core.notice(heads(4), [], 1.1) == []
    assert bench.core.notice(heads(9), [], 1.2) == []
    effects = bench.core.fetched(fetch.fetch, answer(1, 3), 1.5)
    assert only(effects, Signal).head == 3
    following = only(effects, Fetch)
    assert (following.after, following.upto) == (3, 9)


@pytest.mark.parametrize("stale", [heads(3), heads(2), [NewHead(99, "A", 5)]])
def test_repeated_stale_and_unknown_heads_change_nothing(stale: list[NewHead]) -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.core.notice(stale, [], 2.0) == []


def test_pushed_results_that_continue_need_no_fetch() -> None:
    bench = Bench()
    assert bench.core.notice(heads(2, *results(1, 2)), [], 1.0) == [Signal(7, "A", 2, [1])]
    # 2 is repeated, 3 is new
    assert bench.core.notice(heads(3, *results(2, 3)), [], 1.0) == [Signal(7, "A", 3, [1])]


def test_pushed_results_after_a_hole_are_fetched_with_what_is_missing() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(4, result(4)), [], 1.0), Fetch)
    assert (fetch.after, fetch.upto) == (0, 4)


def test_a_fetch_overtaken_by_pushed_results_adds_only_what_is_new() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    bench.core.notice(heads(2, *results(1, 2)), [], 1.1)
    assert bench.core.fetched(fetch.fetch, answer(1, 3), 1.2) == [Signal(7, "A", 3, [1])]


def test_what_is_pushed_while_a_fetch_is_under_way_is_taken_behind_it() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    assert bench.core.notice(heads(4, *results(3, 4)), [], 1.1) == []
    assert bench.core.notice(heads(5, result(5)), [], 1.2) == []
    assert bench.core.notice(heads(4, *results(3, 4)), [], 1.3) == []  # came twice
    effects = bench.core.fetched(fetch.fetch, answer(1, 2), 1.5)
    assert effects == [Signal(7, "A", 2, [1]), Signal(7, "A", 5, [1])]
    assert bench.core.cache.contents(7) == results(1, 5)


def test_of_what_is_pushed_past_a_hole_the_rest_is_fetched() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    bench.core.notice(heads(6, result(6)), [], 1.1)
    following = only(bench.core.fetched(fetch.fetch, answer(1, 2), 1.5), Fetch)
    assert (following.after, following.upto) == (2, 6)


def test_what_was_pushed_of_a_past_epoch_is_not_taken() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    bench.core.notice(heads(3, result(3)), [], 1.1)
    new = RangeAnswer("B", 0, 2, [Result(7, n, 0.0, b"new") for n in (1, 2)])
    assert only(bench.core.fetched(fetch.fetch, new, 1.5), Signal).head == 2
    assert [one.payload for one in bench.core.cache.contents(7)] == [b"new", b"new"]


def test_what_waits_for_fetches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "AHEAD_BYTES_AT_MOST", len(result(3).payload))
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    bench.core.notice(heads(3, result(3)), [], 1.1)
    bench.core.notice(heads(4, result(4)), [], 1.1)
    again = only(bench.core.fetched(fetch.fetch, answer(1, 2), 1.5), Fetch)
    assert (again.after, again.upto) == (2, 4)
    bench.core.notice(heads(5, result(5)), [], 1.6)  # there is room again
    assert bench.core.fetched(again.fetch, answer(3, 4), 1.7)[-1] == Signal(7, "A", 5, [1])


def test_a_failed_fetch_is_tried_again_later_and_later() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(2), [], 1.0), Fetch)
    bench.core.fetch_failed(fetch.fetch, 1.0)
    assert bench.core.notice(heads(3), [], 1.0) == []
    assert bench.core.tick(1.05) == []
    again = only(bench.core.tick(1.1), Fetch)
    assert (again.after, again.upto) == (0, 3)
    bench.core.fetch_failed(again.fetch, 1.1)
    assert bench.core.tick(1.25) == []
    assert only(bench.core.tick(1.3), Fetch).upto == 3


def test_results_are_cached_for_subscribers_that_are_away() -> None:
    bench = Bench()
    bench.core.disconnected(1, 0.5)
    assert bench.grow(1, 2) == []
    assert bench.core.cache.contents(7) == results(1, 2)


def test_inline_connections_get_the_results_in_one_shared_frame() -> None:
    bench = Bench(inline=True)
    bob = subscription(6, "bob")
    bench.core.connected(2, "bob", True, [bob], bench.core.query_token, 0.0)
    effects = bench.grow(1, 2)
    assert effects == [SendInline(7, "A", 0, 2, results(1, 2), [1, 2])]


def test_inline_without_a_cache_fetches_to_send() -> None:
    bench = Bench("none", inline=True)
    assert only(bench.grow(1, 2), SendInline).results == results(1, 2)
    assert bench.core.cache.size_bytes == 0


def test_a_floor_above_what_was_fetched_is_passed_over_and_signalled() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(6), [], 1.0), Fetch)
    effects = bench.core.fetched(fetch.fetch, answer(5, 6, floor=4), 1.0)
    assert effects[-1] == Signal(7, "A", 6, [1])
    assert bench.core.cache.contents(7) == results(5, 6)
