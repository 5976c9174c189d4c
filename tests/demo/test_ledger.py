"""The demo's ledger: an honest run passes, and each broken promise is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.demo.ledger import Ledger, percentile


def run(*positions: int, after: int = 0, head: int = 4) -> Ledger:
    """One subscriber on broker_1 displayed these positions; the store ends at `head`."""
    ledger = Ledger()
    ledger.subscribed(5, "alice", "broker_1", backend=7, epoch="e", after=after)
    for position in positions:
        ledger.displayed(5, position, broker="broker_1", latency_ms=10.0 * position)
    ledger.stored(7, "e", head)
    return ledger


def test_a_run_that_keeps_its_promises_is_whole() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.published("emergencies", 3)
    ledger.published("shelters")
    outcome = ledger.outcome()
    assert outcome.promises_held
    assert outcome.broken == ()
    assert (outcome.published, outcome.results, outcome.total.delivered) == (4, 4, 4)
    assert outcome.total.latency_ms == {"p50": 20.0, "p99": 40.0}


def test_a_result_that_was_never_displayed_is_lost() -> None:
    outcome = run(1, 2, 4).outcome()
    assert outcome.total.lost == 1
    assert outcome.brokers["broker_1"].lost == 1
    assert not outcome.promises_held
    assert outcome.broken == ("alice (subscription 5) never displayed 3",)


def test_results_at_the_end_that_nobody_displayed_are_lost() -> None:
    assert run(1, 2, head=4).outcome().total.lost == 2
    assert run(head=4).outcome().total.lost == 4


def test_outstanding_counts_what_is_still_owed() -> None:
    ledger = run(1, 2, head=4)
    assert ledger.outstanding() == 2
    ledger.displayed(5, 3, broker="broker_1")
    ledger.displayed(5, 4, broker="broker_1")
    assert ledger.outstanding() == 0


def test_a_result_displayed_again_is_doubled_and_delivered_once() -> None:
    outcome = run(1, 2, 2, 3, 4).outcome()
    assert (outcome.total.doubled, outcome.total.delivered) == (1, 4)
    assert outcome.total.out_of_order == 0
    assert not outcome.promises_held


def test_a_result_displayed_again_by_another_broker_is_doubled_there() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.displayed(5, 4, broker="broker_2")
    outcome = ledger.outcome()
    assert outcome.brokers["broker_2"].doubled == 1
    assert outcome.brokers["broker_1"].doubled == 0


def test_a_result_displayed_after_a_later_one_is_out_of_order() -> None:
    outcome = run(1, 3, 2, 4).outcome()
    assert (outcome.total.out_of_order, outcome.total.lost, outcome.total.delivered) == (1, 0, 4)
    assert not outcome.promises_held


def test_a_result_that_was_never_stored_is_seen() -> None:
    outcome = run(1, 2, 3, 4, 5).outcome()
    assert outcome.total.unknown == 1
    assert not outcome.promises_held


def test_a_result_from_before_the_subscription_is_seen() -> None:
    assert run(2, 3, 4, after=2).outcome().total.unknown == 1


def test_a_result_for_nobodys_subscription_is_seen() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.displayed(99, 1, broker="broker_1")
    assert not ledger.outcome().promises_held


def test_only_results_after_the_subscription_are_owed() -> None:
    outcome = run(3, 4, after=2).outcome()
    assert outcome.promises_held
    assert outcome.total.delivered == 2


def test_another_epoch_at_the_store_does_not_cover_what_was_displayed() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.stored(7, "another", 4)
    assert not ledger.outcome().promises_held


def test_a_change_of_epoch_is_a_broken_promise() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.subscribed(5, "alice", "broker_1", backend=7, epoch="another", after=0)
    assert not ledger.outcome().promises_held


def test_after_unsubscribing_nothing_more_is_owed() -> None:
    ledger = run(1, 2)
    ledger.unsubscribed(5)
    ledger.displayed(5, 3, broker="broker_1")  # was on its way
    assert ledger.outcome().promises_held


def test_a_hole_before_unsubscribing_is_still_a_loss() -> None:
    ledger = run(1, 3)
    ledger.unsubscribed(5)
    assert ledger.outcome().total.lost == 1


def test_the_store_may_forget_what_nobody_holds_any_more() -> None:
    ledger = Ledger()
    ledger.subscribed(5, "alice", "broker_1", backend=7, epoch="e", after=0)
    ledger.displayed(5, 1, broker="broker_1")
    ledger.unsubscribed(5)
    assert ledger.outcome().promises_held


def test_an_id_that_is_given_again_starts_a_new_subscription() -> None:
    ledger = run(1, 2, 3, 4)
    ledger.unsubscribed(5)
    ledger.subscribed(5, "bob", "broker_1", backend=8, epoch="f", after=0)
    ledger.displayed(5, 1, broker="broker_1")
    ledger.stored(8, "f", 2)
    outcome = ledger.outcome()
    assert (outcome.total.delivered, outcome.total.doubled, outcome.total.lost) == (5, 0, 1)
    assert outcome.broken == ("bob (subscription 5) never displayed 2",)


def test_a_told_gap_is_no_silent_loss() -> None:
    ledger = run(3, 4)
    ledger.gap(5, 1, 2)
    outcome = ledger.outcome()
    assert outcome.promises_held
    assert outcome.total.reported_missing == 2


def test_a_loss_belongs_to_the_broker_that_serves_the_subscription_last() -> None:
    ledger = run(1, 2)
    ledger.subscribed(5, "alice", "broker_2", backend=7, epoch="e", after=0)
    outcome = ledger.outcome()
    assert outcome.brokers["broker_1"].lost == 0
    assert outcome.brokers["broker_2"].lost == 2


def test_results_caught_up_later_do_not_count_for_latency() -> None:
    ledger = run(1)
    ledger.displayed(5, 2, broker="broker_1", latency_ms=None)
    assert ledger.outcome().total.latency_ms == {"p50": 10.0, "p99": 10.0}


def test_hit_ratio_is_over_all_brokers_and_none_without_requests() -> None:
    ledger = run(1, 2, 3, 4)
    assert ledger.outcome().total.hit_ratio is None
    ledger.cache("broker_1", hits=3, misses=1, fetched_bytes=100)
    ledger.cache("broker_2", hits=0, misses=4, fetched_bytes=50)
    outcome = ledger.outcome()
    assert outcome.brokers["broker_1"].hit_ratio == 0.75
    assert outcome.total.hit_ratio == 3 / 8
    assert outcome.total.fetched_bytes == 150


def test_only_the_first_broken_promises_are_listed_but_all_are_counted() -> None:
    ledger = run(*range(1, 101), *range(1, 101), head=100)
    outcome = ledger.outcome()
    assert outcome.total.doubled == 100
    assert len(outcome.broken) == 20


@given(st.lists(st.integers(1, 12), max_size=30), st.integers(0, 12))
def test_the_account_agrees_with_a_plain_count(displays: list[int], head: int) -> None:
    total = run(*displays, head=head).outcome().total
    distinct = set(displays)
    assert total.delivered == len(distinct)
    assert total.doubled == len(displays) - len(distinct)
    assert total.lost == len(set(range(1, head + 1)) - distinct)
    assert total.unknown == len({position for position in distinct if position > head})
    firsts = list(dict.fromkeys(displays))
    assert total.out_of_order == sum(
        position < max(firsts[:index], default=0) for index, position in enumerate(firsts)
    )


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 5.0), (0.99, 10.0), (0.1, 1.0), (0.0, 1.0), (0.91, 10.0)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(10, 0, -1)], share) == expected


def test_percentile_of_nothing_is_none() -> None:
    assert percentile([], 0.5) is None


def test_an_interrupted_demo_owes_nothing_beyond_what_was_seen_last() -> None:
    ledger = run(1, 2, head=4)
    ledger.interrupted()
    assert ledger.outcome().total.lost == 0
    assert ledger.outcome().promises_held


def test_an_interrupted_demo_still_counts_holes() -> None:
    ledger = run(1, 3, head=4)
    ledger.interrupted()
    assert ledger.outcome().total.lost == 1


def test_backends_are_those_of_every_subscription_also_of_given_up_ones() -> None:
    ledger = run(1)
    ledger.subscribed(6, "bob", "broker_1", backend=8, epoch="e", after=0)
    ledger.unsubscribed(6)
    assert ledger.backends() == {7, 8}
