"""What a live run is worth: promises checked, the simulator's measures, its costs found again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.admission.as_seen import BEGAN_AT, as_seen, close, same_counts
from lab.admission.made import POLICIES, made, offers
from tocsin.lab.live.consumer_logs.costs import measured_costs
from tocsin.lab.live.consumer_logs.observation import Observed, Seen, check
from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.workloads.offers import Offers
from tocsin.policies import parse_admission


@settings(max_examples=60, deadline=None)
@given(offers(), st.sampled_from(POLICIES))
def test_what_consumers_saw_is_measured_as_the_simulator_measures(
    workload: Offers, text: str
) -> None:
    expected, seen = as_seen(workload, parse_admission(text), Logs(poll_s=0.3, mark_s=0.2))
    found = Observed(workload, BEGAN_AT, seen).measures(0.0)
    same_counts(found, expected)
    for name in ("latency_mean_s", "latency_p50_s", "latency_p99_s", "ordered_mean_s"):
        assert close(getattr(found, name), getattr(expected, name)), name
    if expected.deliveries:
        assert close(found.duration_s, expected.duration_s)


FOUR = made([[0, 1], [0]], [(0.0, 0, 10), (0.1, 1, 10), (0.2, 0, 10), (0.3, 1, 10)], [(0, 0)] * 2)


def seen_of(change: Callable[[list[Seen]], None]) -> list[Seen]:
    _, seen = as_seen(FOUR, parse_admission("all"), Logs())
    changed = copy.deepcopy(seen)
    change(changed)
    return changed


def drop_last(seen: list[Seen]) -> None:
    seen[0].records.pop()


def swap(seen: list[Seen]) -> None:
    seen[0].records[1:3] = reversed(seen[0].records[1:3])


def repeat(seen: list[Seen]) -> None:
    seen[1].records.append(seen[1].records[-1])


def lose(seen: list[Seen]) -> None:
    seen[1].lost = 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop_last, "consumer 1 got 3 records instead of 4: the first 3 are right"),
        (swap, "consumer 1 got 4 records instead of 4: the first 1 are right"),
        (repeat, "consumer 2 got 3 records instead of 2: the first 2 are right"),
        (lose, "consumer 2 was told that 2 records are lost"),
    ],
)
def test_whatever_is_not_complete_in_order_and_once_is_told(
    change: Callable[[list[Seen]], None], told: str
) -> None:
    with pytest.raises(BrokenPromise) as broken:
        check(FOUR, seen_of(change))
    assert str(broken.value) == told


def test_a_record_is_admitted_for_all_of_its_consumers_or_for_none() -> None:
    def tear(seen: list[Seen]) -> None:
        seen[1].filled[1] = True  # its second record is the third of all

    with pytest.raises(BrokenPromise, match="record 3 was admitted for some of its consumers only"):
        Observed(FOUR, BEGAN_AT, seen_of(tear))


def test_a_turn_is_what_was_committed_together() -> None:
    def in_two(seen: list[Seen]) -> None:
        for one in seen:
            one.made_at = [BEGAN_AT + (0.5 if record < 1 else 0.75) for record in one.records]
            one.arrived_at = [at + 0.125 for at in one.made_at]
        seen[0].filled[1] = True
        seen[0].logged_at[1] = seen[0].arrived_at[1] - 0.0625

    found = Observed(FOUR, BEGAN_AT, seen_of(in_two)).timings()
    assert found.turn_s == pytest.approx([0.5, 0.25])  # the second begins where the first ends
    assert found.turn_records == [1, 3]
    assert (found.turn_copies, found.turn_misses) == ([2, 3], [0, 1])
    assert found.turn_logged_s == pytest.approx([0.125, 0.125])
    assert found.turn_filled_s == pytest.approx([0, 0.125])
    assert found.turn_read_s == pytest.approx([0, 0.0625])


def test_the_store_holds_what_was_asked_alike_once() -> None:
    # Two consumers with one backend subscription for the shared content, a third with its own.
    workload = made([[0, 1], [2]], [(0.0, 0, 10), (0.1, 0, 10), (0.2, 1, 7)], [(0, 0)] * 3)
    _, seen = as_seen(workload, parse_admission("none"), Logs())
    found = Observed(workload, BEGAN_AT, seen).measures(0.0)
    assert found.database_written_bytes == 10 + 10 + 7
    assert found.database_read_bytes == 4 * 10 + 7


COSTS = Logs(
    turn_s=0.3,
    broker_s=50e-6,
    commit_s=0.04,
    log_write_s=30e-6,
    log_read_s=0.01,
    database_read_s=0.02,
    database_row_s=20e-6,
    mark_s=0.1,
)


def point(policy: str, records: int, part: float) -> dict[str, Any]:
    """A point whose turns, of one record and of the others, took just what `COSTS` say."""
    cost = COSTS
    sizes = np.array([1, records - 1])
    copies = np.round(sizes * part).astype(int)
    misses = 2 * sizes - copies
    logged_s = cost.commit_s + copies * cost.log_write_s + cost.log_read_s
    noticed_s = np.where(copies > 0, copies * cost.log_write_s, cost.mark_s)
    fetch_s = cost.database_read_s + misses * (cost.database_row_s + cost.log_write_s)
    asked_s = cost.commit_s + noticed_s + cost.log_read_s + cost.log_write_s
    return {
        "policy": policy,
        "turn_s": (cost.turn_s + sizes * cost.broker_s).tolist(),
        "turn_records": sizes.tolist(),
        "turn_copies": copies.tolist(),
        "turn_misses": misses.tolist(),
        "turn_logged_s": np.where(copies > 0, logged_s, 0.0).tolist(),
        "turn_filled_s": np.where(misses > 0, asked_s + fetch_s + cost.log_read_s, 0).tolist(),
        "turn_read_s": np.where(misses > 0, cost.log_read_s, 0.0).tolist(),
    }


def assert_found(rows: list[dict[str, Any]]) -> None:
    found = measured_costs(rows, COSTS.mark_s)
    for name in ("turn_s", "broker_s", "commit_s", "log_write_s", "log_read_s", "database_read_s"):
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=1e-3), name
    assert found.database_row_s == pytest.approx(COSTS.database_row_s, rel=1e-2)
    assert (found.database_write_s, found.poll_s, found.mark_s) == (0.0, 0.0, COSTS.mark_s)


def test_costs_are_found_from_what_admits_everything_or_nothing() -> None:
    ends = [point("all", 500, 2.0), point("none", 500, 0.0), point("none", 5000, 0.0)]
    assert_found(ends)
    strange = point("mean(50)", 500, 1.0)
    strange["turn_s"] = [5.0, 5.0]
    assert_found([*ends, strange])


def test_costs_are_found_from_others_if_there_are_no_such_points() -> None:
    assert_found([point("mean(50)", records, 1.0) for records in (500, 1000, 5000)])


def test_what_no_point_shows_costs_nothing() -> None:
    found = measured_costs([point("all", 500, 2.0)], 0.1)
    assert (found.database_read_s, found.database_row_s, found.log_read_s) == (0.0, 0.0, 0.0)
    assert found.commit_s == pytest.approx(COSTS.commit_s + COSTS.log_read_s)
