"""Spark reads a damaged log: loudly, or, where a repair gave records up, everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from log.segments.test_rot import filled, repaired, spoil
from tocsin.errors import Damaged
from tocsin.model import Column, Dataset
from tocsin.spark.log_lines import keep_positions, log_lines
from tocsin.spark.tables import ParquetMedium, TableLimits, Tables
from tocsin.storage.log import open_reader
from tocsin.storage.store.store import Store

REPORTS = Dataset("reports", (Column("n", "INT"),))
OLDER = 400


def read(frame: DataFrame) -> list[int]:
    return sorted(json.loads(row.line)["r"]["n"] for row in frame.collect())


@pytest.mark.parametrize("inside", [2, 8, 12, 16, 20, 40, -3, -1])
def test_spark_tells_a_flipped_bit_wherever_it_is(
    spark: SparkSession, tmp_path: Path, inside: int
) -> None:
    places = filled(tmp_path, segment_bytes=OLDER)
    reader, end = open_reader(str(tmp_path)), places[-1][1]
    assert read(log_lines(spark, reader, "reports", 0, end)) == list(range(20))
    middle = read(log_lines(spark, reader, "reports", places[4][0], places[7][1]))
    assert middle == [4, 5, 6, 7]
    first, last = places[5]
    spoil(tmp_path, (first if inside >= 0 else last) + inside)
    with pytest.raises(Damaged) as told:
        log_lines(spark, reader, "reports", places[4][0], places[7][1])
    assert f"[{first}, {last})" in told.value.message
    if inside == -1:  # by lines, the next one is part of it
        with pytest.raises(Damaged, match=f"in .{first}, {last}."):
            log_lines(spark, reader, "reports", places[6][0], end)
    else:
        assert read(log_lines(spark, reader, "reports", places[6][0], end)) == list(range(6, 20))
    repaired(tmp_path)
    kept = [n for n in range(20) if n != 5]
    assert read(log_lines(spark, reader, "reports", 0, end)) == kept


def test_spark_tells_a_line_that_another_was_written_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both are whole by their sums, and of one length."""
    places = filled(tmp_path, segment_bytes=1 << 20)
    (path,) = (tmp_path / "reports").glob("*.log")
    other = path.read_bytes()[slice(*places[3])]
    assert places[5][1] - places[5][0] == len(other)
    spoil(tmp_path, places[5][0], other)
    with pytest.raises(Damaged) as told:
        log_lines(spark, open_reader(str(tmp_path)), "reports", 0, places[-1][1])
    assert f"[{places[5][0]}, {places[5][1]})" in told.value.message


def test_a_line_that_is_damaged_after_it_was_looked_at_is_no_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = filled(tmp_path)
    path = spoil(tmp_path, places[5][0] + 45)
    frame = spark.read.text(str(path), lineSep="\n").transform(keep_positions, 0, places[-1][1])
    with pytest.raises(PySparkException, match="a line of the log is damaged"):
        frame.collect()


@pytest.mark.parametrize("small_tail_bytes", [0, 1 << 20])
def test_a_flush_stops_at_damage_and_goes_on_when_it_is_repaired(
    spark: SparkSession, tmp_path: Path, small_tail_bytes: int
) -> None:
    places = filled(tmp_path / "log", segment_bytes=OLDER)
    end = places[-1][1]
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        tables = Tables(
            spark,
            open_reader(str(tmp_path / "log")),
            ParquetMedium(spark, tmp_path / "datasets", store.files),
            TableLimits(small_tail_bytes=small_tail_bytes),
        )
        spoil(tmp_path / "log", places[5][0] + 40)
        for _ in range(2):
            with pytest.raises(Damaged, match="about 1 record in"):
                tables.flush(REPORTS, end)
            with pytest.raises(Damaged):
                tables.window(REPORTS, places[3][0], end).collect()
        assert store.files.stored_end("reports") == 0
        repaired(tmp_path / "log")
        tables.flush(REPORTS, end)
        assert store.files.stored_end("reports") == end
        rows: list[Any] = tables.stored(REPORTS, end).collect()
        assert sorted(row.n for row in rows) == [n for n in range(20) if n != 5]
