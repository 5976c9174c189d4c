"""A channel that is far behind, or whose records fail, takes what it can bear at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tocsin.model import Column, Dataset
from tocsin.spark import diagnosis
from tocsin.spark.failures import Overlong
from tocsin.spark.runner import Runner
from tocsin.spark.snapshot import Snapshots
from tocsin.spark.steps import OVERLONG_TRIES, Steps
from tocsin.spark.tables import ParquetMedium, Tables
from tocsin.spark.trial import Ask, Record
from tocsin.sql import CreateChannel, parse_one
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.store.store import Store

pytestmark = pytest.mark.spark

REPORTS = Dataset("reports", (Column("id", "INT"), Column("kind", "STRING")))
LIMIT_S = 60.0


class Bench:
    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.directory = directory
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.log = open_log(directory / "log", segment_bytes=10_000)
        self.log.open_dataset("reports")
        self.store.catalog.create_dataset(REPORTS)
        reader = open_reader(self.log.address)
        tables = Tables(
            spark, reader, ParquetMedium(spark, directory / "datasets", self.store.files)
        )
        snapshots = Snapshots(tables, {"reports": REPORTS}.__getitem__)
        self.buried: list[tuple[Record, str]] = []
        self.runner = Runner(spark, self.store, on_commit=lambda *_: None, bury=self._bury)
        self.steps = Steps(
            self.runner,
            snapshots,
            self.log,
            reader,
            batch_bytes=1_000_000,
            limit_s=LIMIT_S,
        )

    def _bury(self, _: str, records: Sequence[tuple[Record, str]], __: str) -> None:
        self.buried += records

    def create(self, query: str) -> None:
        asked = parse_one(f"CREATE CONTINUOUS CHANNEL c(kind STRING) AS {query}")
        assert isinstance(asked, CreateChannel)
        self.compiled = self.runner.compile(asked, {"reports": REPORTS})
        self.channel = self.store.catalog.create_channel(self.compiled.channel)
        self.runner.prepare(self.channel, self.compiled)
        self.made, _ = self.store.subscriptions.subscribe("ann", "c", {"kind": "fire"}, None)

    def publish(self, ids: Sequence[int]) -> None:
        records = [json.dumps({"id": each, "kind": "fire"}).encode() for each in ids]
        self.log.append("reports", records).result()

    def log_lines(self) -> list[bytes]:
        (segment,) = (self.directory / "log" / "reports").glob("*.log")
        return segment.read_bytes().splitlines(keepends=True)

    @property
    def left(self) -> int:
        return self.log.ends()["reports"] - self.runner.progress(self.channel).ends["reports"]

    def take_all(self) -> int:
        """How many steps were too much at once."""
        too_much = 0
        while self.left:
            try:
                self.steps.take(self.channel, self.compiled, LIMIT_S)
            except Overlong:
                too_much += 1
        return too_much

    def results(self) -> list[Any]:
        found = self.store.results.read(self.made.backend.id, 0, 10**9, 10_000)
        return [json.loads(result.payload) for result in found.results]


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(spark, tmp_path)
    yield made
    made.log.close()
    made.store.close()


def test_many_bad_records_cost_no_good_one_its_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be traced within the tries of one run is traced in smaller pieces."""
    monkeypatch.setattr(diagnosis, "MOST_TRIES", 20)
    bench.create(
        "SELECT r.id, element_at(array('x'), r.id) AS e FROM NEW reports r WHERE r.kind = :kind"
    )
    ids = [0 if number % 4 == 1 else 1 for number in range(24)]
    bench.publish(ids)
    assert bench.take_all() > 0
    assert sum("_gap" not in result for result in bench.results()) == ids.count(1)
    assert len(bench.buried) == ids.count(0)
    assert {json.loads(text)["id"] for _, text in bench.buried} == {0}


def test_a_run_that_takes_too_long_is_tried_on_less_and_given_up_only_on_the_least(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.create("SELECT r.id FROM NEW reports r WHERE r.kind = :kind")
    bench.publish([1, 2, 3, 4, 5, 6])
    windows: list[int] = []

    def slow(_: str, ask: Ask) -> None:
        start, end = ask.window.range("reports")
        windows.append(end - start)
        raise Overlong("it took longer than 60 s")

    monkeypatch.setattr(bench.runner, "run", slow)
    before = bench.left
    with pytest.raises(Overlong):
        bench.steps.take(bench.channel, bench.compiled, LIMIT_S / 2)
    for _ in range(2):  # less patience than there could be changes nothing
        with pytest.raises(Overlong):
            bench.steps.take(bench.channel, bench.compiled, LIMIT_S)
    assert windows[0] == windows[1] > windows[2]
    while bench.left == before:
        with pytest.raises(Overlong):
            bench.steps.take(bench.channel, bench.compiled, LIMIT_S)
    record = len(next(iter(bench.log_lines())))
    assert windows[-OVERLONG_TRIES:] == [record] * OVERLONG_TRIES
    assert bench.left == before - record
    (gap,) = bench.results()
    assert "run_limit_s" in gap["_gap"]["cause"]


def test_after_a_piece_went_well_the_next_is_larger(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.create("SELECT r.id FROM NEW reports r WHERE r.kind = :kind")
    bench.publish(list(range(40)))
    windows: list[int] = []
    run = bench.runner.run

    def watched(name: str, ask: Ask) -> None:
        start, end = ask.window.range("reports")
        windows.append(end - start)
        if len(windows) <= 2:
            raise Overlong("it took longer than 60 s")
        run(name, ask)

    monkeypatch.setattr(bench.runner, "run", watched)
    bench.take_all()
    assert windows[0] > windows[1] > windows[2] < windows[3] < windows[4]
    assert [result["id"] for result in bench.results()] == list(range(40))
