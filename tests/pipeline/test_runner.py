"""A run commits its results once, in order; one that fails or takes too long harms nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin.language import CreateChannel, parse_one
from tocsin.model import Channel, Column, Dataset
from tocsin.pipeline.runner import ATTEMPTS, Runner, Window
from tocsin.pipeline.snapshot import Snapshot, Snapshots
from tocsin.pipeline.tables import Tables
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.runs import Committed
from tocsin.storage.store import Store

pytestmark = pytest.mark.spark

REPORTS = Dataset(name="reports", columns=(Column("id", "INT"), Column("kind", "STRING")))
DATASETS = {"reports": REPORTS}


class Bench:
    """A runner over a real store and log, with one channel and two parameter sets."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.log = open_log(directory / "log", segment_bytes=10_000)
        self.log.open_dataset("reports")
        self.store.catalog.create_dataset(REPORTS)
        tables = Tables(
            spark, open_reader(self.log.address), directory / "datasets", self.store.files
        )
        self.snapshots = Snapshots(tables, DATASETS.__getitem__)
        self.told: list[Committed] = []

    def close(self) -> None:
        self.log.close()
        self.store.close()

    def runner(self, query: str, *, limit_s: float = 60.0) -> Runner:
        runner = Runner(self.spark, self.store, limit_s=limit_s, on_commit=self._told)
        asked = parse_one(
            "CREATE REPETITIVE CHANNEL c(kind STRING) EVERY INTERVAL 1 HOUR AS " + query
        )
        assert isinstance(asked, CreateChannel)
        compiled = runner.compile(asked, DATASETS)
        self.store.catalog.create_channel(compiled.channel)
        runner.prepare(compiled.channel, compiled)
        for kind in ("fire", "flood"):
            self.store.subscriptions.subscribe("ann", "c", {"kind": kind}, None)
        return runner

    def publish(self, *records: dict[str, Any]) -> None:
        self.log.append("reports", [json.dumps(one).encode() for one in records]).result()

    def run(self, runner: Runner, name: str, snapshot: Snapshot | None = None) -> bool:
        seen = snapshot or self.snapshots.at(self.log.cut())
        window = Window(0, seen.cut.at_us, seen.cut.ends)
        return runner.run("c", name, window, seen, lambda dataset: seen.window(dataset, 0))

    def results(self) -> dict[str, list[Any]]:
        found = {}
        for one in self.store.subscriptions.all_():
            read = self.store.results.read(one.backend.id, 0, 10**9, 1000)
            assert [r.position for r in read.results] == list(range(1, len(read.results) + 1))
            found[one.backend.arguments["kind"]] = [json.loads(r.payload) for r in read.results]
        return found

    def _told(self, _: Channel, committed: Committed) -> None:
        self.told.append(committed)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(spark, tmp_path)
    yield made
    made.close()


def test_results_come_in_the_order_of_their_records_and_once_per_run(bench: Bench) -> None:
    runner = bench.runner("SELECT r.id FROM NEW reports r WHERE r.kind = :kind")
    bench.publish(*({"id": n, "kind": "fire" if n % 2 else "flood"} for n in (5, 3, 4, 1, 2)))
    assert bench.run(runner, "first")
    assert bench.run(runner, "first")
    assert bench.results() == {
        "fire": [{"id": 5}, {"id": 3}, {"id": 1}],
        "flood": [{"id": 4}, {"id": 2}],
    }
    assert [one.count for one in bench.told] == [5]


def test_record_that_a_query_cannot_compute_with_costs_nobody_else_a_result(bench: Bench) -> None:
    runner = bench.runner("SELECT 10 / r.id AS tenth FROM NEW reports r WHERE r.kind = :kind")
    bench.publish({"id": 0, "kind": "fire"}, {"id": 5, "kind": "fire"}, {"id": 2, "kind": "flood"})
    assert bench.run(runner, "first")
    assert bench.results() == {"fire": [{"tenth": None}, {"tenth": 2.0}], "flood": [{"tenth": 5.0}]}


def test_failing_run_is_tried_again_then_reported_and_passed_over(bench: Bench) -> None:
    runner = bench.runner("SELECT r.id FROM NEW reports r WHERE r.kind = :kind")
    bench.publish({"id": 1, "kind": "fire"})

    class Broken(Snapshot):
        def window(self, name: str, start: int) -> DataFrame:
            raise OSError(f"{name} cannot be read")

    broken = Broken(bench.snapshots, bench.log.cut())
    for _ in range(ATTEMPTS - 1):
        assert not bench.run(runner, "bad", broken)
        assert bench.store.runs.last_run("c") is None
    assert bench.run(runner, "bad", broken)
    last = bench.store.runs.last_run("c")
    assert last is not None
    assert last.error == "reports cannot be read"
    assert bench.run(runner, "good")
    assert bench.results()["fire"] == [{"id": 1}]


def test_run_that_takes_too_long_is_stopped_and_says_so(bench: Bench) -> None:
    runner = bench.runner(
        "SELECT count(*) AS n FROM NEW reports r, range(1000000000000) AS many"
        " WHERE r.kind = :kind AND many.id % 7 = r.id GROUP BY r.kind",
        limit_s=1.0,
    )
    bench.publish({"id": 1, "kind": "fire"})
    while not bench.run(runner, "slow"):
        pass
    last = bench.store.runs.last_run("c")
    assert last is not None
    assert last.error is not None
    assert "run_limit_s" in last.error


def test_channel_dropped_during_its_run_is_no_error(bench: Bench) -> None:
    runner = bench.runner("SELECT r.id FROM NEW reports r WHERE r.kind = :kind")
    bench.publish({"id": 1, "kind": "fire"})
    for one in bench.store.subscriptions.all_():
        bench.store.subscriptions.unsubscribe(one.id)
    bench.store.catalog.drop_channel("c")
    assert bench.run(runner, "late")
    runner.forget("c")
    assert bench.run(runner, "later")
