"""The broker core, one rule at a time. Faults in combination are the simulation's business."""

from __future__ import annotations

from typing import TypeVar

import pytest

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import (
    Acked,
    Answer,
    AskNews,
    CloseConnection,
    Effect,
    Ended,
    Fail,
    Fetch,
    Gap,
    Marker,
    SendInline,
    Signal,
    StoreMarkers,
)
from tocsin.broker.events import NewHead, RangeAnswer
from tocsin.errors import NotFound, Unavailable
from tocsin.model import BackendSubscription, Departure, Result, Subscription
from tocsin.policies import parse_policy

T = TypeVar("T")


def result(position: int, size_bytes: int = 10) -> Result:
    return Result(7, position, float(position), b"x" * size_bytes)


def results(first: int, last: int) -> list[Result]:
    return [result(position) for position in range(first, last + 1)]


def subscription(
    number: int = 5,
    subscriber: str = "alice",
    *,
    backend: int = 7,
    epoch: str = "A",
    head: int = 0,
    marker: int = 0,
) -> Subscription:
    there = BackendSubscription(backend, "by_type", {"type": "flood"}, epoch, head)
    return Subscription(number, subscriber, "broker_1", there, marker)


def answer(
    first: int, last: int, *, epoch: str = "A", floor: int = 0, head: int = 0
) -> RangeAnswer:
    return RangeAnswer(epoch, floor, max(head, last), results(first, last))


def heads(head: int, *pushed: Result, epoch: str = "A") -> list[NewHead]:
    return [NewHead(7, epoch, head, pushed)]


def gone(subscription: int = 5, to: str | None = None) -> list[Departure]:
    return [Departure(subscription, to)]


def only(effects: list[Effect], kind: type[T]) -> T:
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


class Bench:
    """A core with alice connected on 1, and a clock that tests move by hand."""

    def __init__(
        self, policy: str = "lsc", *, budget_bytes: int = 1000, inline: bool = False
    ) -> None:
        self.core = BrokerCore(parse_policy(policy), budget_bytes, 0.0, news_poll_s=1000.0)
        self.core.loaded(10, [], self.core.moment, 0.0)
        self.core.news(10, [], [], 0.0)
        self.core.connected(1, "alice", inline, [subscription()], self.core.moment, 0.0)

    def grow(self, first: int, last: int, now: float = 1.0) -> list[Effect]:
        """A notice, the fetch it causes, and the answer."""
        fetch = only(self.core.notice(heads(last), [], now), Fetch)
        return self.core.fetched(fetch.fetch, answer(first, last), now)

    def get(self, after: int | None = None, **more: int | str | float) -> list[Effect]:
        return self.core.get("r", "alice", 5, 2.0, after=after, **more)  # type: ignore[arg-type]

    def ack(self, position: int, epoch: str = "A", request: str | None = None) -> list[Effect]:
        return self.core.ack("alice", 5, epoch, position, 2.0, connection=1, request=request)


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
    bench.core.disconnected(1)
    assert bench.grow(1, 2) == []
    assert bench.core.cache.contents(7) == results(1, 2)


def test_without_a_cache_signals_go_at_once_and_gets_read_the_store() -> None:
    bench = Bench("none")
    assert bench.core.notice(heads(3), [], 1.0) == [Signal(7, "A", 3, [1])]
    fetch = only(bench.get(0), Fetch)
    assert (fetch.after, fetch.upto, fetch.ahead) == (0, 3, False)
    told = only(bench.core.fetched(fetch.fetch, answer(1, 3), 2.5), Answer)
    assert (told.results, told.cached, told.fetched) == (results(1, 3), 0, 3)


def test_inline_connections_get_the_results_in_one_shared_frame() -> None:
    bench = Bench(inline=True)
    bob = subscription(6, "bob")
    bench.core.connected(2, "bob", True, [bob], bench.core.moment, 0.0)
    effects = bench.grow(1, 2)
    assert effects == [SendInline(7, "A", 0, 2, results(1, 2), [1, 2])]


def test_inline_without_a_cache_fetches_to_send() -> None:
    bench = Bench("none", inline=True)
    assert only(bench.grow(1, 2), SendInline).results == results(1, 2)
    assert bench.core.cache.size_bytes == 0


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
    bench.core.subscribed(subscription(6, "bob"), bench.core.moment, 0.0)
    bench.core.notice(heads(3), [], 1.0)
    fetch = only(bench.get(0), Fetch)
    assert bench.core.get("s", "bob", 6, 2.0, after=0) == []
    effects = bench.core.fetched(fetch.fetch, answer(1, 3), 3.0)
    assert [e.request for e in effects if isinstance(e, Answer)] == ["r", "s"]


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


def test_a_floor_above_what_was_fetched_is_passed_over_and_signalled() -> None:
    bench = Bench()
    fetch = only(bench.core.notice(heads(6), [], 1.0), Fetch)
    effects = bench.core.fetched(fetch.fetch, answer(5, 6, floor=4), 1.0)
    assert effects[-1] == Signal(7, "A", 6, [1])
    assert bench.core.cache.contents(7) == results(5, 6)


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
    assert failure.request == "r"
    assert isinstance(failure.error, Unavailable)


def test_nobody_reads_anothers_subscription() -> None:
    bench = Bench()
    assert isinstance(only(bench.core.get("r", "eve", 5, 1.0), Fail).error, NotFound)
    refused = bench.core.ack("eve", 5, "A", 1, 1.0, request="q")
    assert isinstance(only(refused, Fail).error, NotFound)


def test_a_waiting_get_is_answered_when_results_come_or_its_time_is_up() -> None:
    bench = Bench()
    assert bench.get(0, wait_until=30.0) == []
    assert only(bench.grow(1, 1), Answer).results == results(1, 1)
    assert bench.get(1, wait_until=30.0) == []
    assert bench.core.tick(29.9) == []
    assert only(bench.core.tick(30.0), Answer).results == []
    assert bench.core.tick(31.0) == []


def test_an_acknowledgement_is_confirmed_only_when_it_is_durable() -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.ack(2) == []
    assert bench.ack(3, request="q") == []  # conflated
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]
    assert bench.core.tick(3.1) == []
    assert bench.core.markers_stored(()) == [Acked(5, 3, [1], ["q"])]
    assert bench.ack(2) == [Acked(5, 3, [1], [])]  # never goes back


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
    assert bench.core.markers_stored(()) == [Acked(5, 1, [1], [])]


def test_an_acknowledgement_is_clamped_to_the_head_and_ignored_if_of_another_epoch() -> None:
    bench = Bench()
    bench.grow(1, 3)
    assert bench.ack(3, epoch="old") == []
    assert bench.core.tick(3.0) == []
    assert bench.ack(3, epoch="old", request="q") == [Acked(5, 0, [], ["q"])]
    bench.ack(99)
    assert bench.core.tick(3.0) == [StoreMarkers([Marker(5, "A", 3)])]


def test_results_leave_the_cache_when_all_subscribers_took_them() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6, "bob"), bench.core.moment, 0.0)
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
    bench.core.subscribed(subscription(head=3, marker=0), bench.core.moment, 3.1)
    assert only(bench.get(), Answer).after == 3


def test_a_notice_that_something_left_is_only_a_hint_to_ask() -> None:
    bench = Bench()
    assert bench.core.notice([], gone(), 1.0) == [AskNews(10)]
    assert bench.core.notice([], gone(), 1.1) == []  # one question at a time
    assert 5 in bench.core.attachments.frontends
    bench.core.news(12, [], gone(), 1.2)
    assert bench.core.attachments.frontends == {}


def test_a_subscription_that_ended_is_told_and_its_subscriber_stays() -> None:
    bench = Bench()
    bench.core.notice([], gone(), 1.0)
    assert bench.core.news(12, [], gone(to=None), 1.2) == [Ended(5, [1])]
    assert bench.core.attachments.backends == {}
    assert bench.core.attachments.connections == {1: "alice"}
    bench.core.subscribed(subscription(6), bench.core.moment, 1.3)
    assert bench.grow(1, 1) == [Signal(7, "A", 1, [1])]


def test_a_subscriber_that_was_moved_is_sent_there_with_all_it_has() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6, backend=8), bench.core.moment, 0.5)
    bench.core.notice([], gone(), 1.0)
    assert bench.core.news(12, [], gone(to="west"), 1.2) == [CloseConnection(1, "west")]
    assert bench.core.attachments.connections == {}
    assert set(bench.core.attachments.frontends) == {6}  # until it has arrived there


def test_news_older_than_the_return_of_a_subscriber_do_not_send_it_away() -> None:
    bench = Bench()
    bench.core.notice([], gone(), 1.0)  # asks
    bench.core.connected(2, "alice", False, [subscription()], bench.core.moment, 1.1)
    effects = bench.core.news(12, [], gone(to="west"), 1.2)
    assert effects == [AskNews(10)]  # asked again instead
    assert bench.core.news(14, [], [], 1.3) == []
    assert 5 in bench.core.attachments.frontends


def test_unsubscribing_is_told_to_all_connections_of_the_subscriber_once() -> None:
    bench = Bench()
    bench.core.connected(2, "alice", False, [subscription()], bench.core.moment, 0.5)
    bench.core.connected(3, "bob", False, [subscription(6, "bob")], bench.core.moment, 0.5)
    assert bench.core.unsubscribed(5, 1.0) == [Ended(5, [1, 2])]
    assert bench.core.unsubscribed(5, 1.0) == []
    bench.core.tick(2000.0)  # asks
    assert bench.core.news(12, [], gone(), 2000.1) == []


def test_a_new_connection_that_finds_a_subscription_gone_tells_the_older_ones() -> None:
    bench = Bench()
    effects = bench.core.connected(2, "alice", False, [], bench.core.moment, 1.0)
    assert effects == [Ended(5, [1])]


def test_a_subscription_taken_again_goes_on_when_the_old_one_is_gone() -> None:
    bench = Bench()
    bench.core.subscribed(subscription(6), bench.core.moment, 0.5)  # overtakes the next
    bench.core.unsubscribed(5, 0.6)
    assert bench.grow(1, 1) == [Signal(7, "A", 1, [1])]


def test_news_move_the_sequence_and_an_attachment_moves_it_back() -> None:
    bench = Bench()
    asked = bench.core.moment  # sequence 10
    bench.core.notice([], gone(), 1.0)
    bench.core.news(20, [], [], 1.0)
    assert bench.core.moment.sequence == 20
    # Heads of backend 8 between 10 and 20 were not heard: it was unknown here.
    bench.core.subscribed(subscription(6, backend=8), asked, 2.0)
    assert bench.core.moment.sequence == 10


def test_news_under_way_while_something_is_attached_are_asked_for_again() -> None:
    bench = Bench()
    asked = bench.core.moment  # sequence 10
    bench.core.notice([], gone(), 1.0)  # asks
    bench.core.subscribed(subscription(6, backend=8), asked, 1.1)
    bench.core.news(20, [], [], 1.2)  # told before 8 was known here, perhaps
    assert bench.core.moment.sequence == 10


def test_a_connection_hears_of_results_that_came_while_it_was_being_attached() -> None:
    bench = Bench()
    asked = bench.core.moment
    bench.grow(1, 3)
    effects = bench.core.connected(2, "alice", False, [subscription(head=1)], asked, 2.0)
    assert effects == [Signal(7, "A", 3, [2])]
    assert bench.core.current(subscription(head=1)).backend.head == 3


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


def test_after_a_crash_load_and_news_restore_everything() -> None:
    core = BrokerCore(parse_policy("lsc"), 1000, 0.0)
    effects = core.loaded(88, [subscription(head=12, marker=3)], core.moment, 0.0)
    assert effects == [AskNews(88)]
    fetch = only(core.news(93, heads(14), [], 0.1), Fetch)
    assert (fetch.after, fetch.upto) == (12, 14)
    core.connected(1, "alice", False, [subscription(head=14, marker=3)], core.moment, 0.2)
    assert core.fetched(fetch.fetch, answer(13, 14), 0.3) == [Signal(7, "A", 14, [1])]
    missed = only(core.get("r", "alice", 5, 0.4), Fetch)
    assert (missed.after, missed.upto) == (3, 12)


def test_loading_anew_drops_what_is_no_longer_here_and_lets_its_client_come_again() -> None:
    bench = Bench()
    asked = bench.core.moment
    bench.core.subscribed(subscription(6, "bob"), bench.core.moment, 1.0)  # after we asked
    effects = bench.core.loaded(20, [], asked, 1.1)
    assert CloseConnection(1, None) in effects
    assert set(bench.core.attachments.frontends) == {6}


def test_news_are_asked_for_at_intervals_even_if_they_fail() -> None:
    core = BrokerCore(parse_policy("lsc"), 1000, 0.0, news_poll_s=2.0)
    assert core.tick(5.0) == []  # nothing is known yet
    core.loaded(1, [], core.moment, 5.0)
    core.news_failed(5.1)
    assert core.tick(7.0) == []
    assert core.tick(7.1) == [AskNews(1)]
    core.news(4, [], [], 7.2)
    assert core.tick(9.0) == []
    assert core.tick(9.1) == [AskNews(4)]


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
