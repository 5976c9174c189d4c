"""The pipeline through time: a run worked by hand, and that it keeps its own rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.capacity.made import costs
from tocsin.lab.capacity.costs import Costs, ProcessCosts
from tocsin.lab.capacity.simulation import STEP_S, Trial, simulate

QUIET = Trial(sets=1000, records_per_s=20, seconds=1.0, cores=8)


def of(**processes: ProcessCosts) -> Costs:
    names = {"java": "Java"}
    made = {names.get(name, name): prices for name, prices in processes.items()}
    return replace(costs(), processes=made, run_wait_s=0.0)


def test_a_single_record_takes_what_its_stations_take() -> None:
    """Taken in 4 ms; the run looks for 20 + 2 and commits for 10; broker 6 and client 4: 46 ms."""
    made = of(
        cluster=ProcessCosts(us_per_record=4000, us_per_run=10_000),
        java=ProcessCosts(us_per_run=20_000, us_per_run_per_1000_sets=2000),
        broker=ProcessCosts(us_per_result=6000),
        client=ProcessCosts(us_per_delivery=4000),
    )
    outcome = simulate(made, replace(QUIET, records_per_s=1, seconds=1.0))
    assert outcome.records == 1
    assert outcome.latency_s(0.5) == pytest.approx(0.046, abs=6 * STEP_S)
    waiting = simulate(replace(made, run_wait_s=0.1), replace(QUIET, records_per_s=1))
    assert waiting.latency_s(0.5) == pytest.approx(0.146, abs=6 * STEP_S)


def test_a_run_takes_everything_that_came_during_the_one_before() -> None:
    """With runs of 200 ms a record waits for up to one, and then for its own."""
    made = of(cluster=ProcessCosts(), java=ProcessCosts(us_per_run=200_000))
    outcome = simulate(made, replace(QUIET, seconds=4.0))
    assert outcome.came == outcome.records == 80
    assert 0.25 < outcome.latency_s(0.5) < 0.35
    assert outcome.latency_s(1.0) < 0.41
    assert outcome.busy_cores["Java"] == pytest.approx(1.0, abs=0.05)


def test_one_process_takes_no_more_than_one_core() -> None:
    """2 ms of a single core for each record: no more than 500 a second, however many cores."""
    made = of(cluster=ProcessCosts(us_per_record=2000), java=ProcessCosts())
    for cores in (2, 64):
        outcome = simulate(made, replace(QUIET, records_per_s=1000, seconds=2.0, cores=cores))
        assert outcome.latency_s(1.0) == pytest.approx(2.0, rel=0.06)
        assert outcome.busy_cores["cluster"] == pytest.approx(1.0, rel=0.05)


def test_others_on_the_machine_take_their_share() -> None:
    """One core, of which others use a half."""
    made = of(cluster=ProcessCosts(us_per_record=1000), java=ProcessCosts())
    shared = replace(QUIET, records_per_s=500, seconds=2.0, cores=1, others_cores=0.5)
    alone = replace(shared, others_cores=0.0)
    assert simulate(made, alone).latency_s(1.0) < 0.1
    assert simulate(made, shared).busy_cores["cluster"] == pytest.approx(0.5, rel=0.05)


def test_real_time_mode_waits_for_no_run() -> None:
    """100 ms in Java and 100 ms in the cluster follow each other in a run, and overlap without."""
    made = of(
        cluster=ProcessCosts(us_per_result=10_000),
        java=ProcessCosts(us_per_record=10_000),
    )
    trial = replace(QUIET, records_per_s=90, seconds=3.0)
    batches, streamed = simulate(made, trial), simulate(replace(made, profile="company"), trial)
    assert streamed.latency_s(1.0) < 0.35
    assert batches.latency_s(1.0) > 2


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1, 5000),
    st.floats(0.2, 16),
    st.floats(0, 4),
    st.sampled_from(["embedded", "company"]),
)
def test_nothing_comes_before_it_was_due_and_no_core_is_used_twice(
    rate: float, cores: float, others: float, profile: str
) -> None:
    trial = Trial(
        sets=1000, records_per_s=rate, seconds=1.0, cores=cores, others_cores=others, late_s=1.0
    )
    outcome = simulate(costs(profile), trial)
    assert all(batch.came_s > batch.due_s for batch in outcome.batches if batch.came_s is not None)
    assert outcome.records == round(rate)
    assert sum(outcome.busy_cores.values()) <= cores * (1 + 1e-6)
    assert all(used <= 1 + 1e-6 for used in outcome.busy_cores.values())
    assert simulate(costs(profile), trial) == outcome
