"""What `bench sustain` measures with: when a step was sustained, and records that match one set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench.sustain.arrivals import Arrivals, load
from bench.sustain.climbing import findings_of, tables
from bench.sustain.cpu import OTHERS
from bench.sustain.plan import case
from bench.sustain.shapes import SHAPES
from bench.sustain.steps import Step, judge

from tocsin.geo import distance_km

SECONDS = 9.0
RATE = 1000.0


def step(waits_ms: np.ndarray, *, lost: int = 0) -> Step:
    """A step with these latencies, evenly due."""
    records = round(SECONDS * RATE)
    due_us = np.linspace(0, SECONDS * 1e6, records, endpoint=False).astype(np.int64)
    came_us = due_us + (1000 * np.resize(waits_ms, records)).astype(np.int64)
    kept = slice(0, records - lost)
    used = {"cluster": 0.9, "client": 9.0, OTHERS: 5.0}
    return judge(RATE, SECONDS, records, due_us[kept], came_us[kept], used, 1.0, took_s=10.0)


def growing(by_ms: float, start_ms: float = 200.0) -> np.ndarray:
    """Latencies that grow by so much during the step."""
    return start_ms + np.linspace(0, by_ms, round(SECONDS * RATE))


def test_a_step_without_backlog_is_sustained() -> None:
    steady = step(np.array([100.0, 150.0, 200.0]))
    assert steady.sustained
    assert steady.achieved == pytest.approx(RATE)
    assert (steady.p50_ms, steady.longest_ms) == (150.0, 200.0)
    assert steady.cpu_us == pytest.approx({"cluster": 100.0, "client": 1000.0})
    assert steady.others_cores == pytest.approx(0.5)
    assert steady.whole_cpu_us == pytest.approx(100.0)  # clients are not the system's


def test_a_step_during_which_lag_grows_achieves_so_much_less() -> None:
    overloaded = step(growing(by_ms=0.1 * SECONDS * 1000))
    assert overloaded.achieved == pytest.approx(0.9 * RATE, rel=0.001)
    assert not overloaded.sustained


def test_the_phase_of_long_batches_is_no_backlog() -> None:
    by_ms = 0.03 * SECONDS * 1000
    assert step(growing(by_ms, start_ms=1000.0)).sustained
    assert not step(growing(by_ms, start_ms=50.0)).sustained


def test_latencies_as_long_as_the_step_are_not_sustained() -> None:
    assert not step(np.array([SECONDS * 1000 / 2])).sustained


def test_a_step_that_lost_a_record_is_not_sustained() -> None:
    assert not step(np.array([100.0]), lost=1).sustained
    assert not step(np.array([100.0]), lost=round(SECONDS * RATE)).sustained


@pytest.mark.parametrize("count", [100, 7919])
def test_each_record_matches_one_set_alone(count: int) -> None:
    kinds = [given["kind"] for given in SHAPES["equality"].sets(count)]
    assert len({*kinds}) == count
    assert SHAPES["equality"].fields(7, count)["kind"] == kinds[7]
    near = SHAPES["near"]
    point = near.fields(7, count)
    inside = [
        number
        for number, ball in enumerate(near.sets(count))
        if distance_km(ball["lat"], ball["lon"], point["lat"], point["lon"]) <= ball["km"]
    ]
    assert inside == [7]


def test_a_result_counts_when_it_came_first(tmp_path: Path) -> None:
    arrivals = Arrivals()
    arrivals.came(1, 10)
    arrivals.came_all([2, 3], [20, 30])
    arrivals.came(2, 20)
    assert arrivals.count_from(2) == 3
    arrivals.save(tmp_path / "first.npy")
    arrivals.came(3, 30)
    arrivals.save(tmp_path / "later.npy")
    files = [tmp_path / "later.npy", tmp_path / "first.npy"]
    due_us, came_us = load(files, 2)
    assert due_us.tolist() == [20, 30]
    first = np.load(tmp_path / "first.npy")
    assert came_us.tolist() == first[2, 1:3].tolist()


def test_a_system_that_sustains_nothing_is_told_as_such() -> None:
    measured = case("embedded", "equality", 1000)
    bad, good = step(growing(by_ms=9000.0)), step(np.array([100.0]))
    findings = findings_of(measured, [bad], [bad])
    assert findings[0].ours == 0.0
    assert findings[0].ratio == 0.0
    assert findings[0].met is False
    assert findings_of(measured, [good], [good])[0].ratio == 1.0
    assert len(tables(findings)) == 2
