"""Many records of the publication log as a DataFrame, read by Spark's own tasks."""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.storage.log import Reader
from tocsin.storage.log.kafka import KafkaAddress, KafkaReader
from tocsin.storage.log.segments import SegmentReader, segments

_KAFKA_LINE = """concat('{"p":', offset, ',', substring(CAST(value AS STRING), 2))"""
_KAFKA_RECORD = """CAST(value AS STRING) RLIKE '^\\\\{"t":[0-9]+,"r":\\\\{'"""


def log_lines(spark: SparkSession, log: Reader, dataset: str, start: int, end: int) -> DataFrame:
    """The records in [start, end), as JSON in the column `line`."""
    if isinstance(log, KafkaReader):
        topic = log.kafka.topic(dataset)
        return (
            spark.read.format("kafka")
            .options(**kafka_options(log.kafka))
            .option("subscribe", topic)
            .option("startingOffsets", _offsets(topic, start))
            .option("endingOffsets", _offsets(topic, end))
            .load()
            .transform(keep_records)
        )
    assert isinstance(log, SegmentReader)
    paths = [str(path) for path in segments(log.directory, dataset, start, end)]
    return spark.read.text(paths, lineSep="\n").transform(keep_positions, start, end)


def keep_records(messages: DataFrame) -> DataFrame:
    """Of the messages of a dataset's topic those that are records, as JSON in the column `line`.
    Others may have written there too."""
    return messages.where(_KAFKA_RECORD).selectExpr(f"{_KAFKA_LINE} AS line")


def kafka_options(address: KafkaAddress) -> dict[str, str]:
    """How Spark's Kafka source and sink reach the cluster."""
    return {f"kafka.{key}": value for key, value in address.java().items()}


def _offsets(topic: str, position: int) -> str:
    return msgspec.json.encode({topic: {"0": position}}).decode()


def keep_positions(raw_lines: DataFrame, start: int, end: int, column: str = "value") -> DataFrame:
    """Of a segment's text lines those in [start, end), as JSON in the column `line`.

    The position is cut out of the text, so that only wanted lines are parsed. A line that its
    writer has not finished is beyond every end; if even its position is torn, no comma follows.
    """
    # CCCCCCCC {"p":120,"t":…   the position's first digit is the fifteenth character
    stamp = F.substring(F.col(column), 15, 21)
    position = F.substring_index(stamp, ",", 1).try_cast("BIGINT")
    return raw_lines.where(stamp.contains(",") & (position >= start) & (position < end)).select(
        F.substring(F.col(column), 10, 2**31 - 1).alias("line")
    )
