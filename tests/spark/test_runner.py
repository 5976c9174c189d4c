"""A run commits its results once, in order, with how far its channel got; what fails harms nobody
else, and only a query's own failure moves a channel past a record."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin.model import Channel, Column, Dataset
from tocsin.spark.answering import STRIKES
from tocsin.spark.failures import NO_MEMORY, Overlong
from tocsin.spark.runner import Runner
from tocsin.spark.snapshot import Snapshot, Snapshots
from tocsin.spark.tables import ParquetMedium, Tables
from tocsin.spark.trial import Ask, Record
from tocsin.spark.window import Window
from tocsin.sql import CreateChannel, parse_one
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store

pytestmark = pytest.mark.spark

REPORTS = Dataset(name="reports", columns=(Column("id", "INT"), Column("kind", "STRING")))
DATASETS = {"reports": REPORTS}
BY_KIND = "SELECT r.id FROM NEW reports r WHERE r.kind = :kind"


class Bench:
    """A runner over a real store and log, with one channel and two parameter sets."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.log = open_log(directory / "log", segment_bytes=10_000)
        self.log.open_dataset("reports")
        self.store.catalog.create_dataset(REPORTS)
        tables = Tables(
            spark,
            open_reader(self.log.address),
            ParquetMedium(spark, directory / "datasets", self.store.files),
        )
        self.snapshots = Snapshots(tables, DATASETS.__getitem__)
        self.told: list[Committed] = []
        self.buried: list[tuple[Record, str]] = []
        self.runner = Runner(
            spark, self.store, on_commit=self._told, bury=self._bury, result_limit_bytes=10_000
        )

    def close(self) -> None:
        self.log.close()
        self.store.close()

    def create(self, query: str, kinds: Sequence[str] = ("fire", "flood")) -> None:
        asked = parse_one(
            "CREATE REPETITIVE CHANNEL c(kind STRING) EVERY INTERVAL 1 HOUR AS " + query
        )
        assert isinstance(asked, CreateChannel)
        compiled = self.runner.compile(asked, DATASETS)
        self.channel = self.store.catalog.create_channel(compiled.channel)
        self.runner.prepare(self.channel, compiled)
        for kind in kinds:
            self.subscribe(kind)

    def subscribe(self, kind: str) -> None:
        since = self.log.ends()["reports"]
        self.store.subscriptions.subscribe("ann", "c", {"kind": kind}, None, since=since)

    def publish(self, *records: dict[str, Any]) -> None:
        self.log.append("reports", [json.dumps(record).encode() for record in records]).result()

    def run(self, snapshot: Snapshot | None = None, *, limit_s: float = 60.0) -> None:
        seen = snapshot or self.snapshots.take(self.log.cut)
        upto = Progress(dict(seen.cut.ends), seen.cut.at_us)
        window = Window(self.runner.progress(self.channel), upto)
        self.runner.run("c", Ask(window, seen, limit_s))

    def results(self) -> dict[str, list[Any]]:
        found = {}
        for one in self.store.subscriptions.all_():
            read = self.store.results.read(one.backend.id, 0, 10**9, 1000)
            assert [r.position for r in read.results] == list(range(1, len(read.results) + 1))
            found[one.backend.arguments["kind"]] = [json.loads(r.payload) for r in read.results]
        return found

    def progress(self) -> int:
        stored = self.store.progress.of("c")
        return 0 if stored is None else stored.ends["reports"]

    def _told(self, _: Channel, committed: Committed) -> None:
        self.told.append(committed)

    def _bury(self, channel: str, records: Sequence[tuple[Record, str]], cause: str) -> None:
        assert channel == "c"
        assert cause
        self.buried += records


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(spark, tmp_path)
    yield made
    made.close()


def test_results_come_in_the_order_of_their_records_and_once(bench: Bench) -> None:
    bench.create(BY_KIND)
    bench.publish(*({"id": n, "kind": "fire" if n % 2 else "flood"} for n in (5, 3, 4, 1, 2)))
    start = bench.runner.progress(bench.channel)
    seen = bench.snapshots.take(bench.log.cut)
    window = Window(start, Progress(dict(seen.cut.ends), seen.cut.at_us))
    for _ in range(2):  # the second begins where the channel no longer stands
        bench.runner.run("c", Ask(window, seen, 60.0))
    assert bench.results() == {
        "fire": [{"id": 5}, {"id": 3}, {"id": 1}],
        "flood": [{"id": 4}, {"id": 2}],
    }
    assert [one.count for one in bench.told] == [5]
    assert bench.progress() == bench.log.ends()["reports"]


def test_record_that_a_query_cannot_compute_with_costs_nobody_else_a_result(bench: Bench) -> None:
    bench.create("SELECT 10 / r.id AS tenth FROM NEW reports r WHERE r.kind = :kind")
    bench.publish({"id": 0, "kind": "fire"}, {"id": 5, "kind": "fire"}, {"id": 2, "kind": "flood"})
    bench.run()
    assert bench.results() == {"fire": [{"tenth": None}, {"tenth": 2.0}], "flood": [{"tenth": 5.0}]}


def test_failure_of_the_machinery_never_moves_a_channel_however_often(bench: Bench) -> None:
    bench.create(BY_KIND)
    bench.publish({"id": 1, "kind": "fire"})

    class Broken(Snapshot):
        def window(self, name: str, start: int, end: int | None = None) -> DataFrame:
            raise OSError(28, "No space left on device")

    broken = Broken(bench.snapshots, bench.log.cut())
    for _ in range(10):
        with pytest.raises(OSError, match="No space left"):
            bench.run(broken)
    assert bench.progress() == 0
    assert bench.store.progress.losses("c", 9) == []
    bench.run()
    assert bench.results()["fire"] == [{"id": 1}]


def test_record_that_makes_the_query_fail_is_told_and_everybody_else_is_served(
    bench: Bench,
) -> None:
    bench.create(
        "SELECT r.id, element_at(array('x'), r.id) AS e FROM NEW reports r WHERE r.kind = :kind"
    )
    bench.publish(*({"id": n, "kind": k} for n, k in ((1, "fire"), (0, "fire"), (1, "flood"))))
    end = bench.log.ends()["reports"]
    bench.run()
    good = {"id": 1, "e": "x"}
    results = bench.results()
    assert results["flood"] == [good]
    gap, *rest = results["fire"]
    assert rest == [good]
    assert gap["_gap"]["dataset"] == "reports"
    assert gap["_gap"]["records"] == 1
    assert bench.progress() == end
    ((dead, text),) = bench.buried
    assert json.loads(text) == {"id": 0, "kind": "fire"}
    (loss,) = bench.store.progress.losses("c", 9)
    assert (loss.first, loss.records) == (dead.position, 1)
    assert "index" in loss.cause.lower()
    bench.publish({"id": 1, "kind": "fire"})
    bench.run()
    assert bench.results()["fire"][-1] == good


def test_argument_that_makes_the_query_fail_silences_nobody_else(bench: Bench) -> None:
    bench.create("SELECT r.id FROM NEW reports r WHERE r.kind RLIKE :kind", ("fire", "((", "flood"))
    for turn in range(STRIKES + 2):
        bench.publish({"id": turn, "kind": "fire"}, {"id": turn, "kind": "flood"})
        bench.run()
    expected = [{"id": turn} for turn in range(STRIKES + 2)]
    results = bench.results()
    assert results["fire"] == results["flood"] == expected
    assert len(results["(("]) == STRIKES  # then it is set aside
    assert all("Unclosed group" in gap["_gap"]["cause"] for gap in results["(("])
    (failure,) = bench.store.subscriptions.failures("c").values()
    assert "Unclosed group" in failure
    assert bench.buried == []


def test_argument_that_wants_more_memory_than_there_is_silences_nobody_else(bench: Bench) -> None:
    bench.create(
        "SELECT r.id, length(repeat(r.kind, CAST(:kind AS INT))) AS n FROM NEW reports r",
        ("1", "2000000000"),
    )
    bench.publish({"id": 1, "kind": "x"})
    bench.run()
    results = bench.results()
    assert results["1"] == [{"id": 1, "n": 1}]
    (gap,) = results["2000000000"]
    assert gap["_gap"]["cause"] == NO_MEMORY
    assert bench.spark.range(1).collect()  # Java lives


def test_query_that_fails_on_everything_goes_past_its_window_and_says_so(bench: Bench) -> None:
    bench.create(
        "SELECT r.id, element_at(array('x'), r.id * 0) AS e FROM NEW reports r"
        " WHERE r.kind = :kind OR r.kind <> :kind"
    )
    bench.publish({"id": 1, "kind": "fire"}, {"id": 2, "kind": "flood"})
    bench.run()
    for gaps in bench.results().values():
        assert sum(gap["_gap"]["records"] for gap in gaps) == 2
    assert len(bench.buried) == 2
    assert bench.progress() == bench.log.ends()["reports"]


def test_subscription_counts_from_the_record_after_it(bench: Bench) -> None:
    bench.create(BY_KIND, ("flood",))
    bench.publish({"id": 1, "kind": "fire"}, {"id": 1, "kind": "flood"})
    bench.subscribe("fire")
    bench.publish({"id": 2, "kind": "fire"}, {"id": 2, "kind": "flood"})
    bench.run()
    assert bench.results() == {"fire": [{"id": 2}], "flood": [{"id": 1}, {"id": 2}]}


def test_who_subscribes_while_a_run_is_under_way_gets_every_record_from_its_position(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run had read the subscriptions before, and its window reaches behind that position."""
    bench.create(BY_KIND, ("flood",))
    bench.publish({"id": 1, "kind": "fire"}, {"id": 1, "kind": "flood"})
    position = bench.log.ends()["reports"]
    bench.publish({"id": 2, "kind": "fire"}, {"id": 2, "kind": "flood"})
    commit, subscribe = bench.store.runs.commit_run, bench.store.subscriptions.subscribe

    def late(*args: Any, **options: Any) -> Committed | None:
        subscribe("bob", "c", {"kind": "fire"}, None, since=position)
        return commit(*args, **options)

    monkeypatch.setattr(bench.store.runs, "commit_run", late)
    bench.run()
    assert bench.results() == {"fire": [{"id": 2}], "flood": [{"id": 1}, {"id": 2}]}


def test_each_newcomer_is_told_its_own_gap_though_their_runs_end_at_the_same_record(
    bench: Bench,
) -> None:
    """As ordinary runs serve new subscriptions in real-time mode, one after another."""
    bench.create("SELECT r.id FROM NEW reports r WHERE r.kind RLIKE :kind", ())
    bench.publish({"id": 1, "kind": "fire"})
    seen = bench.snapshots.take(bench.log.cut)
    window = Window(Progress({"reports": 0}, 0), Progress(dict(seen.cut.ends), 0))
    for kind in ("((", "[["):
        made, _ = bench.store.subscriptions.subscribe("ann", "c", {"kind": kind}, None)
        asked = {made.backend.id: {"kind": kind}}
        for _ in range(2):  # once more, as after a crash
            bench.runner.run_for("c", Ask(window, seen, 60.0), asked)
    assert {kind: len(gaps) for kind, gaps in bench.results().items()} == {"((": 1, "[[": 1}


def test_a_subscription_counts_from_where_its_channel_stands_at_least(bench: Bench) -> None:
    bench.create(BY_KIND, ("flood",))
    asked_at = bench.log.ends()["reports"]
    bench.publish({"id": 1, "kind": "fire"})
    bench.run()
    made, _ = bench.store.subscriptions.subscribe(
        "bob", "c", {"kind": "fire"}, None, since=asked_at
    )
    assert made.backend.since == bench.log.ends()["reports"]


def test_result_that_is_too_large_is_told_to_its_own_subscriber_alone(bench: Bench) -> None:
    bench.create("SELECT r.id, repeat('x', r.id) AS x FROM NEW reports r WHERE r.kind = :kind")
    bench.publish(*({"id": n, "kind": k} for n, k in ((1, "fire"), (20_000, "fire"), (1, "flood"))))
    bench.run()
    results = bench.results()
    gap, rest = results["fire"]
    assert rest == results["flood"][0] == {"id": 1, "x": "x"}
    assert gap["_gap"]["records"] == 1
    assert "larger than result_limit_bytes = 10000" in gap["_gap"]["cause"]
    (loss,) = bench.store.progress.losses("c", 9)
    assert loss.dataset == "reports"


def test_run_that_takes_too_long_is_stopped_and_moves_nothing(bench: Bench) -> None:
    bench.create(
        "SELECT count(*) AS n FROM NEW reports r, range(1000000000000) AS many"
        " WHERE r.kind = :kind AND many.id % 7 = r.id GROUP BY r.kind"
    )
    bench.publish({"id": 1, "kind": "fire"})
    with pytest.raises(Overlong, match="longer than 1 s"):
        bench.run(limit_s=1.0)
    assert bench.progress() == 0


def test_run_that_does_not_end_when_asked_is_ended_all_the_same(bench: Bench) -> None:
    """Spark's task compares all with all, and does not look up from that for hours: it would keep
    its slot from everybody else."""
    bench.create(
        "SELECT count(*) AS n FROM NEW reports a, reports b, reports c, reports d"
        " WHERE a.kind = :kind AND (b.id + c.id * d.id) % 7 = a.id % 7 GROUP BY a.kind"
    )
    bench.publish(*({"id": number, "kind": "fire"} for number in range(3000)))
    with pytest.raises(Overlong, match="longer than 3 s"):
        bench.run(limit_s=3.0)
    ends_at = time.monotonic() + 15
    while working(bench.spark):
        assert time.monotonic() < ends_at, working(bench.spark)
        time.sleep(0.5)
    assert bench.spark.range(10).count() == 10  # Java lives


def working(spark: SparkSession) -> list[str]:
    """Java's threads that are busy with a task."""
    java = spark.sparkContext._jvm
    assert java is not None
    threads = java.java.lang.Thread.getAllStackTraces().keySet().toArray()
    tasks = [thread for thread in threads if "task launch" in thread.getName()]
    return [task.getName() for task in tasks if str(task.getState()) == "RUNNABLE"]


def test_window_that_is_given_up_is_told(bench: Bench) -> None:
    bench.create(BY_KIND)
    bench.publish({"id": 1, "kind": "fire"})
    upto = Progress(dict(bench.log.ends()), 5)
    window = Window(bench.runner.progress(bench.channel), upto)
    bench.runner.give_up("c", window, "it took too long")
    for (gap,) in bench.results().values():
        assert gap["_gap"]["cause"] == "it took too long"
    assert bench.progress() == bench.log.ends()["reports"]


def test_channel_dropped_during_its_run_is_no_error(bench: Bench) -> None:
    bench.create(BY_KIND)
    bench.publish({"id": 1, "kind": "fire"})
    for one in bench.store.subscriptions.all_():
        bench.store.subscriptions.unsubscribe(one.id)
    bench.store.catalog.drop_channel("c")
    bench.run()
    bench.runner.forget("c")
    bench.run()
