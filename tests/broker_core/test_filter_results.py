"""Results of filters: routing brings them, at positions with holes; gets and markers as ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_core.bench import only
from broker_core.filters import FilterBench, filtered, record, records, stored
from tocsin.broker.machine.effects import Answer, Fetch, Gap, SendInline, Signal
from tocsin.broker.machine.events import NewHead


def test_what_is_routed_is_cached_and_told_at_once() -> None:
    bench = FilterBench()
    assert bench.routed(13, 19) == [Signal(8, "F", 13, [1]), Signal(8, "F", 19, [1])]
    assert bench.core.cache.contents(8) == records(13, 19)
    told = only(bench.get(10), Answer)
    assert (told.results, told.after, told.upto, told.head) == (records(13, 19), 10, 19, 19)
    assert (told.cached, told.fetched) == (2, 0)


def test_inline_results_continue_where_the_one_before_was() -> None:
    bench = FilterBench(inline=True)
    bench.routed(13)
    assert only(bench.routed(19), SendInline).after == 13


def test_what_comes_twice_counts_once() -> None:
    bench = FilterBench()
    bench.routed(13)
    assert bench.routed(13) == []


def test_heads_of_the_log_cause_no_reads_of_the_store() -> None:
    bench = FilterBench()
    assert bench.core.notice([NewHead(8, "F", 50)], [], 1.0) == []
    assert bench.core.subscribed(filtered(9, head=60), bench.core.query_token, 1.0) == []
    fetch = only(bench.get(5), Fetch)
    effects = bench.core.fetched(fetch.fetch, stored(7, upto=10), 2.0)
    assert [type(one) for one in effects] == [Answer]


def test_clients_are_told_as_head_what_can_be_had_here() -> None:
    """Else they would ask for the rest again and again."""
    bench = FilterBench()
    bench.routed(13)
    assert bench.core.current(filtered(head=50)).backend.head == 13


def test_acknowledgements_of_what_another_broker_gave_count_up_to_the_logs_end() -> None:
    bench = FilterBench()
    bench.core.subscribed(filtered(head=40), bench.core.query_token, 1.0)
    bench.core.ack("alice", 6, "F", 33, 2.0, connection=1)
    assert bench.core.table.frontends[6].marker == 33


def test_a_get_with_a_limit_ends_at_its_last_result() -> None:
    bench = FilterBench()
    bench.routed(13, 19, 20)
    told = only(bench.get(10, limit=2), Answer)
    assert (told.results, told.upto, told.head) == (records(13, 19), 19, 20)


def test_a_get_with_a_limit_takes_stored_ones_first() -> None:
    bench = FilterBench()
    bench.routed(13, 19)
    fetch = only(bench.get(2, limit=3), Fetch)
    assert (fetch.after, fetch.upto) == (2, 10)
    told = only(bench.core.fetched(fetch.fetch, stored(4, 9, upto=10), 2.0), Answer)
    assert (told.results, told.upto) == (records(4, 9, 13), 13)
    assert (told.fetched, told.from_neighbours, told.cached) == (2, 0, 1)


def test_more_stored_ones_than_asked_for_are_cut() -> None:
    bench = FilterBench()
    bench.routed(13)
    fetch = only(bench.get(2, limit=2), Fetch)
    told = only(
        bench.core.fetched(fetch.fetch, stored(4, 6, 9, upto=10, from_neighbours=2), 2.0), Answer
    )
    assert (told.results, told.upto) == (records(4, 6), 6)
    assert (told.fetched, told.from_neighbours, told.cached) == (1, 1, 0)


def test_an_answer_that_was_cut_short_leaves_no_hole_before_the_cached_part() -> None:
    bench = FilterBench()
    bench.routed(13)
    fetch = only(bench.get(2), Fetch)
    told = only(bench.core.fetched(fetch.fetch, stored(4, upto=7), 2.0), Answer)
    assert (told.results, told.upto, told.head) == (records(4), 7, 13)


def test_a_range_without_matches_is_answered_with_how_far_was_looked() -> None:
    bench = FilterBench()
    fetch = only(bench.get(2), Fetch)
    told = only(bench.core.fetched(fetch.fetch, stored(upto=10), 2.0), Answer)
    assert (told.results, told.upto, told.gap) == ([], 10, None)


def test_a_waiting_get_is_not_ended_by_a_range_without_matches() -> None:
    bench = FilterBench()
    fetch = only(bench.get(2, wait_until=30.0), Fetch)
    assert bench.core.fetched(fetch.fetch, stored(upto=10), 3.0) == []
    told = only(bench.routed(13), Answer)
    assert (told.results, told.after) == (records(13), 10)


def test_what_the_log_lost_is_passed_over_and_told_as_a_gap() -> None:
    bench = FilterBench()
    bench.routed(13)
    assert bench.core.lost(8, 30, 1.0) == [Signal(8, "F", 30, [1])]
    assert bench.core.lost(8, 20, 1.0) == []
    bench.routed(31)
    fetch = only(bench.get(13), Fetch)
    assert (fetch.after, fetch.upto) == (13, 30)
    told = only(bench.core.fetched(fetch.fetch, stored(upto=30, floor=30), 2.0), Answer)
    assert (told.gap, told.results) == (Gap(14, 30), records(31))


def test_a_new_epoch_begins_where_the_log_is() -> None:
    """Nothing that was before is read for those who come now."""
    bench = FilterBench()
    bench.routed(13)
    assert bench.core.subscribed(filtered(7, epoch="G", head=40), bench.core.query_token, 1.0) == []
    backend = bench.core.table.backends[8]
    assert (backend.epoch, backend.fetched, bench.core.cache.contents(8)) == ("G", 40, [])


@given(
    st.lists(st.integers(1, 60), unique=True).map(sorted),
    st.integers(0, 60),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=6),
)
def test_gets_give_what_a_plain_list_would(
    positions: list[int], begin: int, budget_bytes: int, gets: list[tuple[int, int]]
) -> None:
    """Whatever is cached, from any cursor, with any limit: the next ones, and nothing left out."""
    bench = FilterBench(budget_bytes=budget_bytes)
    bench.core.unsubscribed(6, 0.0)
    bench.core.subscribed(filtered(head=begin, marker=0), bench.core.query_token, 0.0)
    come = [position for position in positions if position > begin]
    bench.routed(*come)
    head = max([begin, *come])
    there = [position for position in positions if position <= head]
    for after, limit in gets:
        effects = bench.get(after, limit=limit)
        if isinstance(effects[0], Fetch):
            fetch = effects[0]
            between = [one for one in there if fetch.after < one <= fetch.upto]
            answer = stored(*between, upto=fetch.upto)
            effects = bench.core.fetched(fetch.fetch, answer, 2.0)
        told = only(effects, Answer)
        assert told.results == [record(one) for one in there if one > after][:limit]
        assert [one for one in there if after < one <= told.upto] == [
            one.position for one in told.results
        ]
        assert len(told.results) == limit or told.upto == max(after, head)
