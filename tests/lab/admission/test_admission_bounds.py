"""Bounds on admission hold for every choice there is, and what they call reached was played."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.admission.made import POLICIES, made, offers
from tocsin.errors import SettingError
from tocsin.lab.bounds.admission import best_for_bytes, certify_retention
from tocsin.lab.bounds.admission.knapsack import knapsack
from tocsin.lab.simulators.consumer_logs import Logs, play, simulate
from tocsin.lab.workloads.offers import CrowdSettings, Offers, crowd_offers
from tocsin.policies import parse_admission


def limited(retention_bytes: int, reference_bytes: int = 3) -> Logs:
    return Logs(
        notice="number",
        database_write_s=0.0,
        retention_bytes=retention_bytes,
        reference_bytes=reference_bytes,
        broker_s=0.01,
    )


@settings(max_examples=40, deadline=None)
@given(offers(most_records=6), st.sampled_from([1, 30, 70, 150]), st.sampled_from([0, 3]))
def test_optimum_of_all_choices_lies_in_the_interval(
    workload: Offers, retention_bytes: int, reference_bytes: int
) -> None:
    logs = limited(retention_bytes, reference_bytes)
    found = certify_retention(workload, logs, rounds=30)
    best = max(
        play(workload, np.array(choice) & (workload.waiting > 0), logs)[0].hits
        for choice in product([False, True], repeat=len(workload))
    )
    assert found.reached <= best <= found.limit


@settings(max_examples=40, deadline=None)
@given(
    offers(),
    st.sampled_from(POLICIES),
    st.sampled_from([20, 90, 300]),
    st.sampled_from(["each", "shared"]),
)
def test_no_policy_beats_the_bounds(
    workload: Offers, text: str, retention_bytes: int, layout: str
) -> None:
    policy, logs = parse_admission(text), limited(retention_bytes)
    measured = simulate(workload, policy, logs)
    assert measured.hits <= certify_retention(workload, logs, rounds=10).limit
    unlimited = Logs(layout="each" if layout == "each" else "shared")
    measured = simulate(workload, policy, unlimited)
    best = best_for_bytes(workload, unlimited, measured.admitted_bytes)
    assert measured.hits <= best.limit
    assert best.reached <= best.limit


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20)), min_size=1, max_size=8),
    st.integers(0, 60),
)
def test_knapsack_holds_the_best_of_all_subsets(items: list[tuple[int, int]], budget: int) -> None:
    worth, cost = np.array(items).T
    best = max(
        int(worth[list(subset)].sum())
        for subset in (
            [k for k, taken in enumerate(choice) if taken]
            for choice in product([0, 1], repeat=len(items))
        )
        if cost[list(subset)].sum() <= budget
    )
    found = knapsack(worth, cost, budget)
    assert found.reached <= best <= found.limit
    assert found.limit <= found.reached + worth.max() + 1e-6  # within one record


def test_bound_by_hand() -> None:
    # One read of 30, 30 and 50 bytes with room for 60: two of three, which "all" does not get.
    workload = made([[0]], [(1, 0, 30), (2, 0, 30), (3, 0, 50)], [(10, 10)])
    logs = limited(60, reference_bytes=0)
    assert simulate(workload, parse_admission("all"), logs).hits == 1
    found = certify_retention(workload, logs)
    assert (found.reached, found.limit) == (2, 2)


def test_one_decision_for_two_logs_is_worth_less_than_one_for_each() -> None:
    """Consumer 0 reads both records at once and has room for one; consumer 1 reads each alone. Each
    log alone could have 1 and 2 hits, but a record is admitted for both or for none."""
    workload = made([[0, 1], [0, 1]], [(1, 0, 60), (2, 1, 60)], [(10, 10), (1.5, 1.5)])
    logs = limited(60, reference_bytes=0)
    found = certify_retention(workload, logs)
    assert (found.reached, found.limit) == (3, 3)  # both: the newer one is what log 0 keeps
    tighter = made([[0, 1], [0]], [(1, 0, 60), (2, 1, 10), (2.5, 1, 10)], [(10, 10), (1.5, 1.5)])
    # Log 0 holds the large record or both small ones; log 1 wants the large one: 1 + 1 or 2.
    found = certify_retention(tighter, logs)
    assert found.reached == 3  # the large one leaves log 0, and is still a hit in log 1
    assert found.limit == 3


def test_interval_is_narrow_on_a_crowd() -> None:
    workload = crowd_offers(CrowdSettings(records=1_500, consumers=200), seed=1)
    logs = limited(10_000)
    policies = [simulate(workload, parse_admission(text), logs) for text in POLICIES]
    found = certify_retention(workload, logs, also=policies, rounds=60)
    assert max(measured.hits for measured in policies) < found.reached
    assert found.gap < 0.1 * found.limit


@pytest.mark.parametrize(
    "logs",
    [
        Logs(notice="number", database_write_s=0.0),
        Logs(notice="gap", database_write_s=0.0, retention_bytes=100),
        Logs(notice="number", retention_bytes=100),
        Logs(notice="number", database_write_s=0.0, retention_bytes=100, layout="shared"),
    ],
)
def test_logs_that_the_bound_does_not_hold_for_are_refused(logs: Logs) -> None:
    with pytest.raises(SettingError, match="the bound"):
        certify_retention(made([[0]], [(1, 0, 10)], [(0, 0)]), logs)


def test_measures_of_another_run_are_found_out() -> None:
    workload = made([[0]], [(1, 0, 30), (2, 0, 30)], [(10, 10)])
    other = made([[0]], [(1, 0, 30)] * 9, [(0, 0)])
    measured = simulate(other, parse_admission("all"), limited(60))
    with pytest.raises(AssertionError, match="beats the bound"):
        certify_retention(workload, limited(60), also=[measured])
