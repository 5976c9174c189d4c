"""The log as a Spark stream: every record once, replayed exactly, only what is of interest."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from log.media import over_every_log
from tocsin.pipeline.log_source import LogStreamReader, Offset, ends_of, register_log_source
from tocsin.storage.log import open_log, open_reader


class Bench:
    """A log, an interest file, and readers over them."""

    def __init__(self, directory: Path, log_address: str) -> None:
        self.interest_path = directory / "interest.json"
        self.log = open_log(log_address, segment_bytes=300)
        self.numbers = itertools.count()

    def publish(self, dataset: str, count: int = 1) -> list[int]:
        self.log.open_dataset(dataset)
        new = list(itertools.islice(self.numbers, count))
        self.log.append(dataset, [b'{"n":%d}' % n for n in new]).result()
        return new

    def interest(self, **starts: int) -> None:
        fresh = self.interest_path.with_suffix(".new")
        fresh.write_text(json.dumps(starts))
        os.replace(fresh, self.interest_path)

    def reader(self, batch_bytes: int = 1 << 20) -> LogStreamReader:
        return LogStreamReader(open_reader(self.log.address), self.interest_path, batch_bytes)

    def end(self, dataset: str) -> int:
        return self.log.ends()[dataset]


@pytest.fixture
def bench(tmp_path: Path, log_address: str) -> Iterator[Bench]:
    made = Bench(tmp_path, log_address)
    yield made
    made.log.close()


def numbers(rows: Iterator[tuple[str, str]]) -> list[int]:
    return [json.loads(line)["r"]["n"] for _, line in rows]


def read(bench: Bench, reader: LogStreamReader, start: Offset) -> tuple[list[int], Offset]:
    """Batches until everything of interest was read. A log that is far away takes its time."""
    wanted = {name: bench.end(name) for name in json.loads(bench.interest_path.read_text())}
    found: list[int] = []
    while not wanted.items() <= ends_of(start).items():
        rows, start = reader.read(start)
        found += numbers(rows)
    return found, start


def stored(offset: Offset) -> Offset:
    """An offset as Spark keeps it."""
    return dict(json.loads(json.dumps(offset)))


@over_every_log
def test_nothing_new_gives_the_same_offset_again(bench: Bench) -> None:
    reader = bench.reader()
    rows, none = reader.read({})
    assert (list(rows), none) == ([], {})
    bench.interest(reports=0)
    bench.publish("reports")
    _, offset = read(bench, reader, {})
    rows, again = reader.read(stored(offset))
    assert list(rows) == []
    assert again == offset


@over_every_log
def test_a_dataset_starts_where_the_interest_file_says(bench: Bench) -> None:
    bench.publish("reports", 3)
    bench.interest(reports=bench.end("reports"))
    new = bench.publish("reports", 2)
    found, offset = read(bench, bench.reader(), {})
    assert found == new
    assert ends_of(offset) == {"reports": bench.end("reports")}
    assert numbers(bench.reader().readBetweenOffsets({}, stored(offset))) == new


@over_every_log
def test_a_dataset_without_interest_is_not_read_and_keeps_its_offset(bench: Bench) -> None:
    reader = bench.reader()
    bench.interest(reports=0, users=0)
    bench.publish("reports")
    bench.publish("users")
    _, offset = read(bench, reader, {})
    bench.interest(users=0)
    bench.publish("reports")
    wanted = bench.publish("users")
    found, later = read(bench, reader, stored(offset))
    assert found == wanted
    assert later["reports"] == offset["reports"]


@over_every_log
def test_interest_that_comes_back_skips_what_nobody_asked_for(bench: Bench) -> None:
    reader = bench.reader()
    bench.interest(reports=0)
    bench.publish("reports")
    _, offset = read(bench, reader, {})
    bench.publish("reports", 4)
    bench.interest(reports=bench.end("reports"))
    new = bench.publish("reports", 2)
    found, later = read(bench, reader, stored(offset))
    assert found == new
    bench.interest(reports=0)
    assert numbers(bench.reader().readBetweenOffsets(stored(offset), stored(later))) == new


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=12), st.data())
def test_batches_cover_every_record_once_and_replay_exactly(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, int]], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("source")
    bench = Bench(directory, str(directory / "log"))
    bench.interest(a=0, b=0, c=0)
    reader = bench.reader(batch_bytes=data.draw(st.sampled_from([1, 150, 600])))
    published: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    seen: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    offset: Offset = {}

    def step() -> bool:
        nonlocal offset
        rows, end = reader.read(offset)
        taken = list(rows)
        assert sorted(bench.reader().readBetweenOffsets(offset, stored(end))) == sorted(taken)
        for dataset, line in taken:
            seen[dataset].append(json.loads(line)["r"]["n"])
        moved = end != offset
        assert moved == bool(taken)
        offset = stored(end)
        return moved

    for dataset, count in plan:
        published[dataset] += bench.publish(dataset, count)
        if data.draw(st.booleans()):
            step()
    while step():
        pass
    bench.log.close()
    assert seen == published


@pytest.mark.spark
@over_every_log
def test_spark_streams_each_record_once_across_a_restart(
    spark: SparkSession, bench: Bench, tmp_path: Path
) -> None:
    register_log_source(spark)
    seen: list[int] = []
    sizes: list[int] = []

    def collect(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        sizes.append(len(rows))
        seen.extend(numbers(iter([(r["dataset"], r["line"]) for r in rows])))

    def start() -> Any:
        return (
            spark.readStream.format("tocsin_log")
            .option("log", bench.log.address)
            .option("interest", str(bench.interest_path))
            .option("batch_bytes", "4096")
            .load()
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    expected: list[int] = []
    bench.interest(reports=0)
    for _ in range(2):
        query = start()
        try:
            for count in (1, 200):
                expected += bench.publish("reports", count)
                query.processAllAvailable()
                assert sorted(seen) == expected
            assert ends_of(json.loads(query.lastProgress.sources[0].endOffset)) == {
                "reports": bench.end("reports")
            }
        finally:
            query.stop()
        expected += bench.publish("reports", 3)  # while nobody reads
    assert sorted(seen) == expected[:-3]
    assert 0 not in sizes[1:]  # Spark begins with a batch, though there be nothing
