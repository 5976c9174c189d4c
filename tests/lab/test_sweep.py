"""Sweeps on Spark: each point once, kept at once; failures and interruptions cost no others."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from tocsin.errors import Unavailable
from tocsin.lab.experiments.edge_caching import EXPERIMENT
from tocsin.lab.running import Done, run_experiment
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.spec.study import Row
from tocsin.lab.sweeps.points import Store, read_points
from tocsin.lab.sweeps.sweep import sweep
from tocsin.lab.sweeps.tasks import Place, tasks_of, workload_of
from tocsin.lab.workloads.edge import edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TINY = {"subscribers": "30", "backends": "5", "hours": "0.2"}


class Watched:
    """What a progress bar is told; may interrupt after some points."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.begun: list[tuple[str, int]] = []
        self.done: dict[str, int] = {}
        self._interrupt_after = interrupt_after

    def begin(self, what: str, total: int) -> None:
        self.begun.append((what, total))

    def advance(self, count: int) -> None:
        what = self.begun[-1][0]
        self.done[what] = self.done.get(what, 0) + count
        if what == "points" and self._interrupt_after is not None:
            self._interrupt_after -= count
            if self._interrupt_after <= 0:
                raise KeyboardInterrupt


def planned(**options: Any) -> Plan:
    given: dict[str, Any] = {
        "quick": True,
        "seeds": 2,
        "bound_seeds": 0,
        "policies": ["lru", "ttl"],
        "values": [200_000, 400_000],
        "settings": TINY,
    }
    return plan(EXPERIMENT, Options(**(given | options)))


def playing(made: Plan, play: Callable[..., Row]) -> Plan:
    return replace(made, study=replace(made.study, play=play))


def fake(made: Plan, directory: Path, *, seconds: float = 0.0, fails: str = "") -> Plan:
    """Counts its calls in files, since it runs in Spark's workers; a closure travels by value."""

    def play(workload: Workload, policy: str, value: int, network: Network) -> Row:
        time.sleep(seconds)
        played = hashlib.sha256(workload.at.tobytes()).hexdigest()[:12]
        with (directory / f"{played}-{policy}-{value}").open("a") as calls:
            calls.write("x")
        if policy == fails:
            raise ZeroDivisionError("float division by zero")
        return {"hit_ratio": 0.5}

    return playing(made, play)


def calls(directory: Path) -> dict[str, int]:
    return {file.name: len(file.read_text()) for file in directory.iterdir()}


def run(made: Plan, out: Path, watched: Watched, **how: Any) -> Done:
    return run_experiment(EXPERIMENT, made, out, watched, **how)


def test_points_equal_what_the_simulator_says(spark: SparkSession, tmp_path: Path) -> None:
    made = planned(bound_seeds=1)
    watched = Watched()
    done = run(made, tmp_path, watched, spark=spark)
    assert (done.there, done.failures) == (made.points, [])
    points, _ = read_points(tmp_path)
    assert len(points) == made.points
    assert watched.done == {"workloads": 4, "points": made.points}
    for variant, config in made.configs.items():
        workload = edge_workload(config.workload, 2)
        expected = simulate(workload, parse_policy("ttl"), 400_000).row()
        (found,) = points[
            (points["variant"] == variant)
            & (points["policy"] == "ttl")
            & (points["size_bytes"] == 400_000)
            & (points["seed"] == 2)
        ].to_dict("records")
        del expected["seconds"]
        assert {name: found[name] for name in expected} == pytest.approx(expected)
    bounds = points[points["kind"] == "bound"]
    assert len(bounds) == 4
    cell = ["variant", "size_bytes", "seed"]
    pairs = bounds[[*cell, "best_hit_ratio"]].merge(
        points.loc[points["policy"] == "lru", [*cell, "hit_ratio"]], on=cell
    )
    assert len(pairs) == 4
    assert (pairs["hit_ratio"] <= pairs["best_hit_ratio"]).all()
    assert not (tmp_path / "workloads").exists()


def test_finished_points_are_not_computed_again(spark: SparkSession, tmp_path: Path) -> None:
    out, counted = tmp_path / "out", tmp_path / "calls"
    counted.mkdir()
    first, wider = planned(policies=["lru"]), planned(policies=["lru", "lsc"])
    with Store(out, first.conditions) as store:
        swept = sweep(fake(first, counted), store, Watched(), spark=spark)
        assert (swept.computed, swept.kept) == (8, 0)
    with Store(out, wider.conditions) as store:
        swept = sweep(fake(wider, counted), store, Watched(), spark=spark)
        assert (swept.computed, swept.kept) == (8, 8)
        swept = sweep(fake(wider, counted), store, Watched(), spark=spark)
        assert (swept.computed, swept.kept) == (0, 16)
    assert calls(counted) == dict.fromkeys(calls(counted), 1)
    assert len(calls(counted)) == 16


def test_interrupted_sweep_keeps_what_is_finished_and_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, counted = tmp_path / "out", tmp_path / "calls"
    counted.mkdir()
    made = planned(policies=["lru", "lsc", "ttl"])
    slow = fake(made, counted, seconds=0.3)
    done = run(slow, out, Watched(interrupt_after=5), spark=spark)
    assert done.interrupted
    assert 5 <= done.there < made.points
    assert len(read_points(out)[0]) == done.there
    time.sleep(1.0)  # a cancelled task may be in its last moments
    begun = len(calls(counted))
    assert begun < made.points, "the job was not cancelled"
    again = run(fake(made, counted), out, Watched(), spark=spark)
    assert (again.there, again.computed) == (made.points, made.points - done.there)
    assert len(read_points(out)[0]) == made.points


def test_failing_policy_leaves_the_others_alone(spark: SparkSession, tmp_path: Path) -> None:
    out, counted = tmp_path / "out", tmp_path / "calls"
    counted.mkdir()
    done = run(fake(planned(), counted, fails="ttl"), out, Watched(), spark=spark)
    assert done.there == 8
    (told,) = done.failures
    assert told == "ttl: ZeroDivisionError: float division by zero (8 points)"
    assert set(read_points(out)[0]["policy"]) == {"lru"}
    mended = run(fake(planned(), counted), out, Watched(), spark=spark)
    assert (mended.computed, mended.failures) == (8, [])


def test_lost_worker_ends_the_sweep_with_words(spark: SparkSession, tmp_path: Path) -> None:
    def dies(workload: Workload, policy: str, value: int, network: Network) -> Row:
        os._exit(3)

    made = playing(planned(), dies)

    with (
        Store(tmp_path, made.conditions) as store,
        pytest.raises(Unavailable, match="the sweep stopped") as told,
    ):
        sweep(made, store, Watched(), spark=spark)
    assert "run the same again" in str(told.value)


def test_seeds_come_one_after_the_other() -> None:
    tasks = tasks_of(planned(seeds=3, bound_seeds=1))
    assert tasks[0].kind == "bound"
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)
    assert len(tasks) == planned(seeds=3, bound_seeds=1).points
    assert len({msgspec.json.encode(task.row({})) for task in tasks}) == len(tasks)


def test_workload_is_made_once_and_mapped(tmp_path: Path) -> None:
    task = tasks_of(planned())[0]
    place = Place.at(tmp_path)
    first = workload_of(task, place)
    (kept,) = (path for path in tmp_path.iterdir() if path.is_dir())
    stamp = (kept / "at.npy").stat().st_mtime_ns
    second = workload_of(task, place)
    assert (kept / "at.npy").stat().st_mtime_ns == stamp
    assert (first.at == second.at).all()
    assert type(second.at).__name__ == "memmap"


def test_machine_that_does_not_share_the_directory_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tasks_of(planned())[0]
    elsewhere = tmp_path / "executor"
    elsewhere.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{elsewhere},/another")
    (tmp_path / "driver").mkdir()  # there is such a path, but it is not the driver's
    workload_of(task, Place(str(tmp_path / "driver"), "token"))
    assert list((tmp_path / "driver").iterdir()) == []
    assert list(elsewhere.glob("tocsin-workloads-token/*/at.npy"))
