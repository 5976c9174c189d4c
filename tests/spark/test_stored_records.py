"""What Spark stored is read back without it, as the log had it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from spark.table_media import MEDIA, over_every_medium
from tocsin.cluster.log_records import LogRecords
from tocsin.intake.formats import RawRecord
from tocsin.intake.validator import RecordValidator
from tocsin.model import Column, Dataset
from tocsin.spark.tables import TableLimits, Tables
from tocsin.storage.log import open_log, open_reader

pytestmark = pytest.mark.spark

TYPES = {
    "id": "BIGINT",
    "flag": "BOOLEAN",
    "small": "INT",
    "single": "FLOAT",
    "double": "DOUBLE",
    "price": "DECIMAL(10,2)",
    "text": "STRING",
    "moment": "TIMESTAMP",
    "day": "DATE",
    "tags": "ARRAY<STRING>",
    "marks": "MAP<STRING,DOUBLE>",
    "place": "STRUCT<lat:DOUBLE,since:TIMESTAMP>",
}
DATASET = Dataset(
    "reports",
    tuple(Column(name, kind) for name, kind in TYPES.items()),
    open=True,
    primary_key=("id",),
    routed=True,
)
FULL: dict[str, Any] = {
    "id": 1,
    "flag": False,
    "small": -7,
    "single": 0.1,
    "double": 1e300,
    "price": "12.50",
    "text": "Größe 'x'\n",
    "moment": "2026-11-16T02:00:00.123456+01:00",
    "day": "1969-12-31",
    "tags": ["a", None, ""],
    "marks": {"x": 1.5},
    "place": {"lat": 33.6, "since": "1960-01-01T00:00:00Z"},
    "mood": "grim",
    "numbers": [1, 2],
}
RECORDS = [FULL, {"id": 2}, {"id": 1, "small": 3}, {"id": 3, "place": {"lat": None}}]


@over_every_medium
def test_every_type_comes_back_as_the_log_had_it_and_no_key_hides_another(
    spark: SparkSession, tmp_path: Path, on: str
) -> None:
    fitting = RecordValidator(DATASET, 100_000)
    medium = MEDIA[on](spark, tmp_path / "datasets", time.time, lambda: [DATASET])
    with open_log(tmp_path / "log", segment_bytes=1000) as log:
        log.open_dataset("reports")
        reader = open_reader(log.address)
        limits = TableLimits(compact_files=2, grace_s=0.0)
        tables = Tables(spark, reader, medium.open(), limits)
        for number, fields in enumerate(RECORDS):
            encoded = fitting.encode(RawRecord(number, fields))
            assert isinstance(encoded, tuple), encoded
            log.append("reports", [encoded]).result(30)
        records = LogRecords(reader, medium.files)
        end = log.ends()["reports"]
        logged = records.read(DATASET, 0, end)
        half = logged.records[1].position
        for upto in (half, end):
            log.roll("reports")
            tables.flush(DATASET, upto)
        assert tables.compact(DATASET)
        log.retire("reports", end)
        assert reader.first_position("reports") == end
        stored = records.read(DATASET, 0, end)
        assert stored.upto == end
        assert [record[:3] for record in stored.records] == [
            record[:3] for record in logged.records
        ]
        decode = msgspec.json.decode
        for there, here in zip(stored.records, logged.records, strict=True):
            assert decode(there.record) == decode(here.record)
        assert len(stored.records) == len(RECORDS)
        assert tables.stored(DATASET, end).count() == 3
