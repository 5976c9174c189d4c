"""Stored datasets: files and the log's tail together hold each record once, whatever happens; on
every medium."""

from __future__ import annotations

import datetime
import json
import random
import time
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from log.media import over_every_log
from spark.table_media import MEDIA
from tocsin.dev.kafka import Kafka as KafkaServer
from tocsin.model import Column, Dataset
from tocsin.spark.tables import TableLimits, Tables
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.log.kafka import KafkaAddress, Topics
from tocsin.storage.log.kafka.bases import encode_bases
from tocsin.storage.store.data_file import DataFile

PLAIN = Dataset("reports", (Column("n", "INT"), Column("k", "STRING")))
KEYED = Dataset("users", (Column("n", "INT"), Column("k", "STRING")), primary_key=("k",))


class Bench:
    """A log and tables over it, on a clock that only the test moves."""

    def __init__(self, spark: SparkSession, directory: Path, log_address: str, on: str) -> None:
        self.now = time.time()
        self.spark = spark
        self.directory = directory
        self.log = open_log(log_address, segment_bytes=400, clock=self.clock)
        self.datasets = [PLAIN, KEYED]
        folder = directory / "tables"
        self.medium = MEDIA[on](spark, folder, self.clock, lambda: self.datasets)
        self.limits = TableLimits(compact_files=3, small_tail_bytes=0, grace_s=60.0)
        self.tables = self.open_tables()

    def clock(self) -> float:
        return self.now

    def open_tables(self, **limits: int) -> Tables:
        return Tables(
            self.spark,
            open_reader(self.log.address),
            self.medium.open(),
            msgspec.structs.replace(self.limits, **limits),
            clock=self.clock,
        )

    def publish(self, dataset: Dataset, *records: dict[str, Any]) -> int:
        self.log.open_dataset(dataset.name)
        lines = [json.dumps(record).encode() for record in records]
        return self.log.append(dataset.name, lines).result().end

    def end(self, dataset: Dataset) -> int:
        return self.log.ends()[dataset.name]

    def files(self, dataset: Dataset) -> tuple[DataFile, ...]:
        return self.medium.files.stored(dataset).files


@pytest.fixture(params=list(MEDIA))
def on(request: pytest.FixtureRequest) -> str:
    """The name of a medium."""
    return str(request.param)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path, log_address: str, on: str) -> Any:
    made = Bench(spark, tmp_path, log_address, on)
    yield made
    made.log.close()


def numbers(records: DataFrame) -> list[int]:
    return sorted(row["n"] for row in records.select("n").collect())


EVERY_TYPE = Dataset(
    "types",
    (
        Column("s", "STRING"),
        Column("i", "INT"),
        Column("l", "BIGINT"),
        Column("d", "DOUBLE"),
        Column("b", "BOOLEAN"),
        Column("m", "DECIMAL(30,6)"),
        Column("o", "DECIMAL(30,6)"),
        Column("day", "DATE"),
        Column("at", "TIMESTAMP"),
        Column("a", "ARRAY<INT>"),
        Column("kv", "MAP<STRING,DOUBLE>"),
        Column("st", "STRUCT<x: INT, y: STRING>"),
        Column("odd name`", "STRING"),
    ),
    open=True,
)


@pytest.mark.spark
@over_every_log
def test_every_type_comes_back_exactly_from_the_log_and_from_files(bench: Bench, on: str) -> None:
    odd = "odd name`"  # SQL declares no such column, and a Delta table cannot have it
    columns = [column for column in EVERY_TYPE.columns if column.name != odd]
    types = EVERY_TYPE if on == "parquet" else replace(EVERY_TYPE, columns=tuple(columns))
    record = (
        '{"s":"zwölf \\r\\n \\u2028 \\"","i":-5,"l":9007199254740993,"d":0.1,"b":true,'
        '"m":"123456789012345678901234.000001","o":123456789012345678901234.000001,'
        '"day":"2026-02-28","at":"2026-11-16T02:00:00.123456Z","a":[1,null,3],'
        '"kv":{"z":1.5},"st":{"x":1,"y":"q"},"odd name`":"fine"}'
    ).encode()
    bench.log.open_dataset("types")
    bench.log.append("types", [(record, b'{"more":"yes"}'), b"{}"]).result()
    end = bench.log.ends()["types"]

    def read() -> list[Any]:
        return bench.tables.stored(types, end).orderBy("_position").collect()

    from_log = read()
    assert bench.tables.flush(types, end) == 1
    assert read() == from_log
    full, empty = (row.asDict(recursive=True) for row in from_log)
    assert full["s"] == 'zwölf \r\n \u2028 "'
    assert (full["i"], full["l"], full["d"], full["b"]) == (-5, 9007199254740993, 0.1, True)
    assert full["m"] == full["o"] == Decimal("123456789012345678901234.000001")
    assert full["day"] == datetime.date(2026, 2, 28)
    at = bench.tables.stored(types, end).selectExpr("max(unix_micros(at))").collect()
    assert at[0][0] == 1_794_794_400_123_456
    assert (full["a"], full["kv"]) == ([1, None, 3], {"z": 1.5})
    assert full["st"] == {"x": 1, "y": "q"}
    assert full.get(odd, "fine") == "fine"
    assert (full["_position"], full["_extra"]) == (0, {"more": "yes"})
    assert empty["_extra"] == {}
    assert all(empty[c.name] is None for c in types.columns)


ODD_RECORDS = (
    b'{"i":99999999999,"l":1e3,"d":"Infinity","b":"true","m":"1e40","day":"2026-02-30"}',
    b'{"at":"soon","a":[],"kv":{},"st":{},"s":""}',
    b'{"a":7,"kv":[1],"st":"x","s":{"nested":[1,2]}}',
    b'{"s":"\\ud83d\\ude00 \xf0\x9f\x98\x80 \\u001e","S":"other","a":["1",2.5,null]}',
    b'{"at":"2026-11-16","day":"2026-11-16T02:00:00Z","m":0.0000001,"d":1e400,"st":{"x":"1"}}',
)


@pytest.mark.spark
@pytest.mark.parametrize("log_address", ["segments"], indirect=True)
def test_few_records_read_by_the_driver_are_those_that_tasks_would_read(bench: Bench) -> None:
    bench.log.open_dataset("types")
    by_tasks, found = bench.tables, []
    by_driver = bench.open_tables(small_tail_bytes=10**6)
    for record in ODD_RECORDS:
        bench.log.append("types", [(record, b'{"x":{"y":1}}'), record]).result()
        end = bench.log.ends()["types"]
        frames = [tables.window(EVERY_TYPE, 0, end) for tables in (by_driver, by_tasks)]
        found.append([sorted(map(repr, frame.collect())) for frame in frames])
        assert frames[0].isLocal()
        assert [field.dataType for field in frames[0].schema] == [
            field.dataType for field in frames[1].schema
        ]
    assert [len(driver) for driver, _ in found] == [2, 4, 6, 8, 10]
    assert all(driver == tasks for driver, tasks in found)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("log_address", "seed"),
    [("segments", 0), ("segments", 1), ("segments", 2), ("kafka", 1), ("kafka", 2)],
    indirect=["log_address"],
)
def test_reads_equal_a_plain_dictionary_through_random_flushes_and_compactions(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    # Tails are read by tasks, here, by either.
    bench.tables = bench.open_tables(small_tail_bytes=(0, 1_000_000, 300)[seed])
    published: dict[str, list[dict[str, Any]]] = {"reports": [], "users": []}
    horizon, before_horizon = 0, 0  # a merge may have dropped older records of a key
    for dataset in (PLAIN, KEYED):
        bench.publish(dataset)
    for n in range(24):
        dataset = chance.choice((PLAIN, KEYED))
        match chance.choice(("publish", "publish", "flush", "flush", "compact", "sweep", "retire")):
            case "publish":
                new = [{"n": n * 100 + i, "k": chance.choice("abcd")} for i in range(7)]
                bench.publish(dataset, *new)
                published[dataset.name] += new
            case "flush":
                bench.log.roll(dataset.name)
                bench.tables.flush(dataset, bench.end(dataset))
            case "compact":
                if bench.tables.compact(dataset) and dataset is KEYED:
                    horizon, before_horizon = bench.end(KEYED), len(published["users"])
            case "sweep":
                bench.now += 100
                bench.tables.sweep()
            case "retire":
                bound = bench.tables.retire_below(dataset, bench.end(dataset))
                bench.log.retire(dataset.name, bound)
        if n % 2:
            continue  # two steps, then a look
        plain, keyed = published["reports"], published["users"]
        assert numbers(bench.tables.stored(PLAIN, bench.end(PLAIN))) == [r["n"] for r in plain]
        newest = {r["k"]: r["n"] for r in keyed}
        assert numbers(bench.tables.stored(KEYED, bench.end(KEYED))) == sorted(newest.values())
        window = bench.tables.window(KEYED, horizon, bench.end(KEYED))
        assert numbers(window) == [r["n"] for r in keyed[before_horizon:]]


@pytest.mark.spark
def test_windows_and_views_of_the_past_are_half_open(bench: Bench) -> None:
    ends = [0]
    for n in range(6):
        ends.append(bench.publish(PLAIN, {"n": n}))
        if n in (1, 3):
            bench.tables.flush(PLAIN, ends[-1])
    for a in range(6):
        for b in range(a, 7, 2):
            assert numbers(bench.tables.window(PLAIN, ends[a], ends[b])) == list(range(a, b))
    for b in range(7):
        assert numbers(bench.tables.stored(PLAIN, ends[b])) == list(range(b))


@pytest.mark.spark
def test_records_beyond_the_end_are_not_seen_though_they_are_in_the_segment(bench: Bench) -> None:
    end = bench.publish(PLAIN, {"n": 1})
    bench.publish(PLAIN, {"n": 2})
    last = max((bench.directory / "log" / "reports").glob("*.log"))
    with last.open("ab") as handle:
        handle.write(b'deadbeef {"p":9')  # a writer in the middle of a line
    assert numbers(bench.tables.stored(PLAIN, end)) == [1]
    assert numbers(bench.tables.stored(PLAIN, bench.end(PLAIN))) == [1, 2]


@pytest.mark.spark
def test_a_view_taken_before_flush_and_compaction_still_reads_whole(bench: Bench) -> None:
    for n in range(3):
        bench.publish(KEYED, {"n": n, "k": str(n)})
        bench.tables.flush(KEYED, bench.end(KEYED))
    bench.publish(KEYED, {"n": 3, "k": "3"})
    bench.log.roll("users")
    view = bench.tables.stored(KEYED, bench.end(KEYED))
    bench.tables.flush(KEYED, bench.end(KEYED))
    assert bench.tables.compact(KEYED)
    bench.tables.sweep()
    bench.log.retire("users", bench.tables.retire_below(KEYED, bench.end(KEYED)))
    assert numbers(view) == [0, 1, 2, 3]
    bench.now += 1000
    bench.tables.sweep()
    assert bench.tables.retire_below(KEYED, bench.end(KEYED)) == bench.end(KEYED)
    assert len(bench.medium.data_files()) == 1
    assert numbers(bench.tables.stored(KEYED, bench.end(KEYED))) == [0, 1, 2, 3]


@pytest.mark.spark
@pytest.mark.parametrize("step", ["flush", "compact"])
def test_a_crash_before_the_commit_loses_and_doubles_nothing(
    bench: Bench, on: str, step: str
) -> None:
    for n in range(3):
        bench.publish(PLAIN, {"n": n})
        bench.tables.flush(PLAIN, bench.end(PLAIN))
    bench.publish(PLAIN, {"n": 3})
    before = bench.medium.data_files()
    with bench.medium.cut_short():
        if step == "flush":
            bench.tables.flush(PLAIN, bench.end(PLAIN))
        else:
            bench.tables.compact(PLAIN)
    assert len(bench.medium.data_files()) == len(before) + 1
    tables = bench.open_tables()
    assert numbers(tables.stored(PLAIN, bench.end(PLAIN))) == [0, 1, 2, 3]
    assert tables.flush(PLAIN, bench.end(PLAIN)) == 1
    assert numbers(tables.stored(PLAIN, bench.end(PLAIN))) == [0, 1, 2, 3]
    bench.now = max(path.stat().st_mtime for path in bench.medium.data_files()) + 1
    folder = bench.directory / "tables" / "reports"
    others = []
    if on == "parquet":
        others = [path.with_name(path.name.replace("5e1f", "0ddd")) for path in folder.iterdir()]
        others += [folder / "mine.parquet", folder / ".staging-0ddd0ddd0ddd-0123456789ab"]
    for other in others:  # another store's, or somebody's own: never ours to delete
        other.write_bytes(b"records")
    bench.now += 1000
    assert tables.sweep(grace_s=0) == 1
    assert all(other.exists() for other in others)
    assert len(bench.medium.data_files()) == 4 + len(others)
    assert numbers(tables.stored(PLAIN, bench.end(PLAIN))) == [0, 1, 2, 3]


@pytest.mark.spark
def test_a_crash_behind_the_commit_of_a_flush_doubles_nothing(
    bench: Bench,
) -> None:
    """Whoever commits may die before anybody here has heard of it; and Delta may be told twice."""
    end = bench.publish(PLAIN, {"n": 0}, {"n": 1})
    records = bench.tables.window(PLAIN, 0, end)
    medium = bench.medium.open()
    medium.append(PLAIN, records, 0, end)
    tables = bench.open_tables()
    assert tables.flush(PLAIN, end) == 0
    bench.medium.open().append(PLAIN, records, 0, end)
    assert numbers(bench.open_tables().stored(PLAIN, end)) == [0, 1]


@pytest.mark.spark
def test_a_sweep_leaves_what_was_replaced_after_a_pinned_cut_was_taken(bench: Bench) -> None:
    for n in range(3):
        bench.publish(PLAIN, {"n": n})
        bench.tables.flush(PLAIN, bench.end(PLAIN))
    taken_us = round(bench.now * 1e6)
    view = bench.tables.stored(PLAIN, bench.end(PLAIN))
    bench.now += 1
    assert bench.tables.compact(PLAIN)
    bench.now += 1000
    assert bench.tables.sweep(pinned_us=taken_us) == 0
    assert numbers(view) == [0, 1, 2]
    assert bench.tables.sweep() == 3
    assert numbers(bench.tables.stored(PLAIN, bench.end(PLAIN))) == [0, 1, 2]


@pytest.mark.spark
def test_compaction_up_to_a_horizon_keeps_what_may_still_be_asked_for(bench: Bench) -> None:
    ends = []
    for n in range(5):
        ends.append(bench.publish(KEYED, {"n": n, "k": "same"}))
        bench.tables.flush(KEYED, ends[-1])
    assert bench.tables.compact(KEYED, horizon=ends[2])
    assert [f.rows for f in bench.files(KEYED)] == [1, 1, 1]
    for n in (2, 3, 4):
        assert numbers(bench.tables.stored(KEYED, ends[n])) == [n]
    assert numbers(bench.tables.window(KEYED, ends[2], ends[4])) == [3, 4]
    assert not bench.tables.compact(KEYED, horizon=ends[1])


@pytest.mark.spark
def test_retain_hides_old_records_and_compaction_drops_their_files(bench: Bench) -> None:
    dataset = Dataset("reports", PLAIN.columns, retain_s=100.0)
    for n in range(2):
        bench.publish(dataset, {"n": n})
        bench.tables.flush(dataset, bench.end(dataset))
        bench.now += 60
    end = bench.end(dataset)
    assert numbers(bench.tables.stored(dataset, end)) == [0, 1]
    assert numbers(bench.tables.stored(dataset, end, round(bench.now * 1e6))) == [1]
    assert not bench.tables.compact(dataset)
    bench.now += 50  # the first is now past RETAIN and the grace period
    assert not bench.tables.compact(dataset, horizon=0)  # a channel has yet to look at it
    assert numbers(bench.tables.window(dataset, 0, end)) == [0, 1]
    assert bench.tables.compact(dataset)
    assert numbers(bench.tables.stored(dataset, end)) == [1]
    bench.now += 1000
    assert not bench.tables.compact(dataset)
    assert bench.tables.stored_end(dataset) == end
    assert numbers(bench.tables.stored(dataset, end, round(bench.now * 1e6))) == []


@pytest.mark.spark
@over_every_log
def test_a_dropped_dataset_made_again_is_empty(bench: Bench) -> None:
    bench.publish(PLAIN, {"n": 1})
    bench.tables.flush(PLAIN, bench.end(PLAIN))
    bench.publish(PLAIN, {"n": 2})
    bench.tables.drop(PLAIN)
    bench.log.drop_dataset("reports")
    end = bench.log.open_dataset("reports")
    again = replace(PLAIN, columns=(Column("n", "BIGINT"),), created_at=1.0)
    bench.datasets = [again]
    assert numbers(bench.tables.stored(again, end)) == []
    end = bench.publish(again, {"n": 3})
    assert numbers(bench.tables.stored(again, end)) == [3]
    bench.now += 1000
    assert bench.tables.sweep() == 1
    assert bench.medium.data_files() == []
    bench.tables.flush(again, end)
    assert numbers(bench.tables.stored(again, end)) == [3]


@pytest.mark.spark
def test_nothing_is_left_of_a_dropped_dataset(bench: Bench) -> None:
    bench.publish(PLAIN, {"n": 1})
    bench.tables.flush(PLAIN, bench.end(PLAIN))
    view = bench.tables.stored(PLAIN, bench.end(PLAIN))
    bench.datasets = []
    bench.tables.drop(PLAIN)
    assert bench.tables.sweep() == 0
    assert numbers(view) == [1]
    bench.now += 1000
    assert bench.tables.sweep() == 1
    assert bench.medium.data_files() == []


@pytest.mark.spark
@over_every_log
def test_a_long_tail_becomes_several_files_that_meet(bench: Bench) -> None:
    record_bytes = open_reader(bench.log.address).size_bytes(0, bench.publish(PLAIN, {"n": 0}))
    bench.tables = bench.open_tables(flush_bytes=10 * record_bytes)
    for n in range(1, 40):
        bench.publish(PLAIN, {"n": n})
    assert bench.tables.flush(PLAIN, bench.end(PLAIN)) > 1
    files = bench.files(PLAIN)
    assert [f.first_position for f in files[1:]] == [f.end_position for f in files[:-1]]
    assert files[-1].end_position == bench.end(PLAIN)
    ((_, first),) = open_reader(bench.log.address).lines("reports", 0, 1)
    newest_us = json.loads(first)["t"] + 39
    assert newest_us <= files[-1].max_received_us <= newest_us + 1000
    assert sum(f.rows for f in files) == 40
    assert numbers(bench.tables.stored(PLAIN, bench.end(PLAIN))) == list(range(40))


@pytest.mark.spark
def test_records_of_a_topic_lie_behind_its_base(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    """As after a move: Spark's tasks and the driver read the same records at the same positions."""
    address = KafkaAddress.parse(f"{kafka.url}/t{uuid.uuid4().hex}")
    Topics(address).ensure(address.bases_topic)
    producer = Producer(address.client())
    producer.produce(address.bases_topic, encode_bases({"reports": 7000}), partition=0)
    assert producer.flush(10) == 0
    with open_log(address.text, segment_bytes=1) as log:
        assert log.open_dataset("reports") == 7000
        log.append("reports", [b'{"n":%d}' % n for n in range(5)]).result()
        medium = MEDIA["parquet"](spark, tmp_path, time.time, list).open()
        for small_tail_bytes in (0, 10**6):
            reader = open_reader(address.text)
            limits = TableLimits(small_tail_bytes=small_tail_bytes)
            tables = Tables(spark, reader, medium, limits)
            window = tables.window(PLAIN, 7001, 7004).orderBy("_position").collect()
            assert [(row._position, row.n) for row in window] == [(7001, 1), (7002, 2), (7003, 3)]
            reader.close()
