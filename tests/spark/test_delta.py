"""What holds of Delta tables alone: commits that come late, and what other engines make of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from spark.table_media import OnDelta
from tocsin.cluster.log_records import LogRecords
from tocsin.cluster.stored_records import file_ranges
from tocsin.dev.s3 import S3
from tocsin.errors import Damaged, Unavailable
from tocsin.model import Column, Dataset
from tocsin.spark.tables import TableLimits, Tables
from tocsin.spark.tables.session import moved
from tocsin.storage.log import PublicationLog, open_log, open_reader
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables.address import TableAddress
from tocsin.storage.tables.delta import DeltaFiles

pytestmark = pytest.mark.spark

ATTACHED = "STRUCT<id:STRING,size:BIGINT>"
REPORTS = Dataset("reports", (Column("n", "BIGINT"), Column("at", ATTACHED)), routed=True)


class Bench:
    def __init__(self, spark: SparkSession, directory: Path, log: PublicationLog) -> None:
        self.log = log
        self.on = OnDelta(spark, directory / "tables", time.time, lambda: [REPORTS])
        self.medium: Any = self.on.open()
        self.reader = open_reader(log.address)
        limits = TableLimits(compact_files=3)
        self.tables = Tables(spark, self.reader, self.medium, limits)
        self.published = 0
        log.open_dataset("reports")

    def publish(self, count: int = 5) -> int:
        numbers = range(self.published, self.published + count)
        lines = [b'{"n":%d,"at":{"id":"x","size":%d}}' % (n, n) for n in numbers]
        self.published += count
        return self.log.append("reports", lines).result().end

    def numbers(self) -> list[int]:
        end = self.log.ends()["reports"]
        return sorted(row.n for row in self.tables.stored(REPORTS, end).collect())

    @property
    def table(self) -> Path:
        return self.on.directory / "reports"


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Iterator[Bench]:
    with open_log(tmp_path / "log", segment_bytes=10_000) as log:
        yield Bench(spark, tmp_path, log)


def test_a_flush_of_a_cluster_that_lost_its_lease_comes_late_and_doubles_nothing(
    bench: Bench,
) -> None:
    first = bench.publish()
    bench.tables.flush(REPORTS, first)
    begun = bench.tables.window(REPORTS, 0, bench.publish())
    less, more = bench.publish(), bench.publish()
    assert bench.tables.flush(REPORTS, less) == 1
    late = bench.on.open()
    late.append(REPORTS, begun.where("_position < 0"), first, less - 1)  # of less: it is dropped
    assert late.stored(REPORTS).end == less
    late.append(REPORTS, bench.tables.window(REPORTS, first, more), first, more)  # of more
    assert bench.tables.flush(REPORTS, more) == 0
    assert bench.numbers() == list(range(bench.published))


def test_other_engines_read_what_is_stored(bench: Bench) -> None:
    for _ in range(3):
        bench.tables.flush(REPORTS, bench.publish())
    assert bench.tables.compact(REPORTS)
    wanted = [(n, {"id": "x", "size": n}) for n in range(15)]
    rows = DeltaTable(str(bench.table)).to_pyarrow_table(columns=["n", "at"]).to_pylist()
    assert sorted((row["n"], row["at"]) for row in rows) == wanted
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("**/*.duckdb_extension")
    connection = duckdb.connect()
    connection.load_extension(str(extension))
    seen = connection.sql(
        "SELECT n, struct_pack(id := r.at.id, size := r.at.size) FROM delta_scan(?) r ORDER BY n",
        params=[str(bench.table)],
    )
    assert seen.fetchall() == wanted


def test_records_of_files_that_overlap_are_read_in_their_order(bench: Bench) -> None:
    """As OPTIMIZE may leave them: it merges what is small, wherever that lies."""
    ends = []
    for _ in range(3):
        ends.append(bench.publish())
        bench.tables.flush(REPORTS, ends[-1])
    end = ends[-1]
    records = LogRecords(bench.reader, bench.on.files)
    logged = records.read(REPORTS, 0, end).records
    outer = bench.tables.window(REPORTS, 0, end).where(
        f"_position < {ends[0]} OR _position >= {ends[1]}"
    )
    session = bench.medium._session
    moved(outer.coalesce(1), session).write.format("delta").mode("overwrite").option(
        "replaceWhere", f"_position < {ends[0]} OR _position >= {ends[1]}"
    ).save(f"file://{bench.table}")
    files = bench.on.files.stored(REPORTS, anew=True).files  # type: ignore[call-arg]
    assert [len(ranges.paths) for ranges in file_ranges(files)] == [2]
    bench.log.roll("reports")
    bench.log.retire("reports", end)
    stored = records.read(REPORTS, 0, end).records
    assert [record[:3] for record in stored] == [record[:3] for record in logged]
    assert bench.numbers() == list(range(15))


def test_a_table_that_needs_more_of_its_readers_is_refused(bench: Bench) -> None:
    bench.tables.flush(REPORTS, bench.publish())
    table = bench.medium._table("reports")
    table.addFeatureSupport("deletionVectors")
    with pytest.raises(Damaged, match="somebody has changed"):
        bench.on.open().stored(REPORTS)


def test_a_table_whose_log_is_damaged_is_told_and_not_taken_for_empty(bench: Bench) -> None:
    bench.tables.flush(REPORTS, bench.publish())
    next((bench.table / "_delta_log").glob("*.json")).write_text("no JSON")
    files = DeltaFiles(TableAddress.parse(f"file://{bench.on.directory}"), "5e1f5e1f5e1f5e1f")
    with pytest.raises(Unavailable, match="cannot be reached"):
        files.stored(REPORTS)


def test_tables_in_s3_are_written_merged_swept_and_read(
    spark: SparkSession, s3: S3, tmp_path: Path
) -> None:
    bucket, _, options = s3.fresh().partition("?")
    on = OnDelta(
        spark, tmp_path, time.time, lambda: [REPORTS], address=f"{bucket}/some/folder?{options}"
    )
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in on.address.spark_conf().items():
        hadoop.set(name.removeprefix("spark.hadoop."), value)
    with open_log(tmp_path / "log", segment_bytes=10_000) as log:
        log.open_dataset("reports")
        limits = TableLimits(compact_files=3, grace_s=0.0)
        tables = Tables(
            spark, open_reader(log.address), on.open(), limits, clock=lambda: time.time() + 3600
        )
        for n in range(3):
            end = log.append("reports", [b'{"n":%d}' % n]).result().end
            assert tables.flush(REPORTS, end) == 1
        before = tables.stored(REPORTS, end)
        assert tables.compact(REPORTS)
        assert sorted(row.n for row in before.collect()) == [0, 1, 2]
        log.roll("reports")
        log.retire("reports", end)
        assert tables.sweep() == 3
        assert sorted(row.n for row in tables.stored(REPORTS, end).collect()) == [0, 1, 2]
        read = LogRecords(open_reader(log.address), on.files).read(REPORTS, 0, end)
        assert [record.record for record in read.records] == [b'{"n":%d}' % n for n in range(3)]
        other = DeltaTable(on.address.of("reports"), storage_options=on.address.storage_options())
        assert sorted(other.to_pyarrow_table(columns=["n"])["n"].to_pylist()) == [0, 1, 2]
        tables.drop(REPORTS)
        assert on.open().stored(REPORTS).files == ()


def test_nobody_reads_a_table_by_its_path(bench: Bench, spark: SparkSession) -> None:
    """A query has its dataset's names alone, with Delta as without it."""
    bench.tables.flush(REPORTS, bench.publish())
    for query in (f"FROM delta.`{bench.table}`", f"FROM parquet.`{bench.table}`"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(query)


def test_ranges_meet_where_files_do_not_overlap() -> None:
    files = [DataFile(str(n), n, n + 1, 1, 1, n) for n in range(3)]
    assert [ranges.paths for ranges in file_ranges(files)] == [("0",), ("1",), ("2",)]
