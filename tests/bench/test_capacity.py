"""What `bench capacity` computes: prices from loads, and how far a prediction is off."""

from __future__ import annotations

import numpy as np
import pytest
from bench.capacity import checking
from bench.capacity.plays import Played
from bench.capacity.prices import explained_s, prices, run_wait_s
from bench.sustain.steps import judge

from lab.capacity.made import PROCESSES, costs

CLUSTER, JAVA = PROCESSES["cluster"], PROCESSES["Java"]


def played(sets: int, runs: int, records: int, results: int, deliveries: int) -> Played:
    """A load of ten seconds that took exactly what these prices say."""

    def us(name: str) -> float:
        price = PROCESSES[name]
        return (
            1e7 * price.idle_cores
            + runs * price.us_of_run(sets)
            + records * price.us_per_record
            + results * price.us_per_result
            + deliveries * price.us_per_delivery
        )

    in_runs_us = runs * (CLUSTER.us_of_run(sets) + JAVA.us_of_run(sets) + 10_000)
    in_runs_us += records * JAVA.us_per_record
    in_runs_us += results * (JAVA.us_per_result + CLUSTER.us_per_result)
    return Played(
        of="made up",
        sets=sets,
        took_s=10.0,
        records=records,
        results=results,
        listened_results=results,
        deliveries=deliveries,
        runs=runs,
        run_s=in_runs_us / 1e6,
        cpu_s={name: us(name) / 1e6 for name in ("cluster", "Java", "coordinator")},
        others_cores=0.0,
    )


LOADS = [
    played(1000, 0, 0, 0, 0),
    played(1000, 60, 3000, 3000, 3000),
    played(1000, 50, 10_000, 10_000, 10_000),
    played(1000, 50, 10_000, 10_000, 3000),
    played(1000, 55, 10_000, 1000, 300),
    played(100_000, 40, 10_000, 10_000, 40_000),
]


@pytest.mark.parametrize("name", ["cluster", "Java", "coordinator"])
def test_prices_are_those_that_loads_were_made_with(name: str) -> None:
    given, found = PROCESSES[name], prices(LOADS, name)
    for field in ("us_per_run", "us_per_record", "us_per_result", "us_per_delivery"):
        assert getattr(found, field) == pytest.approx(getattr(given, field), rel=1e-3), field
    assert found.us_per_run_per_1000_sets == pytest.approx(
        given.us_per_run_per_1000_sets, rel=1e-3, abs=0.1
    )
    assert found.idle_cores == pytest.approx(given.idle_cores, rel=1e-3, abs=1e-6)
    for load in LOADS:
        assert explained_s(load, name, found) == pytest.approx(load.cpu_s[name], rel=1e-3, abs=1e-5)


def test_what_a_run_waits_for_is_what_its_cpu_does_not_explain() -> None:
    assert run_wait_s(LOADS, JAVA, CLUSTER) == pytest.approx(0.01)
    assert run_wait_s(LOADS[:1], JAVA, CLUSTER) == 0.0


def test_a_prediction_is_compared_with_what_was_measured_at_the_same_rate() -> None:
    due_us = np.linspace(0, 4e6, 1000, endpoint=False).astype(np.int64)
    measured = judge(250.0, 4.0, 1000, due_us, due_us + 50_000, {}, 1.0, 4.0)
    simulated = checking.predicted(costs(), 1000, measured)
    assert simulated.sustained
    assert simulated.records == 1000
    most, p50, p99 = checking.findings(costs(), 1000, [measured])
    assert most.ours == pytest.approx(1.0, rel=0.05)
    assert most.met
    assert p50.ours == pytest.approx(max(50 / simulated.p50_ms, simulated.p50_ms / 50))
    assert p50.met == (p50.ours <= checking.TARGET)
    assert p99.target is None
    nothing = judge(250.0, 4.0, 1000, due_us[:0], due_us[:0], {}, 1.0, 4.0)
    assert checking.findings(costs(), 1000, [nothing])[0].met is False
