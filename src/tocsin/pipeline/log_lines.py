"""Many records of the publication log as a DataFrame, read by Spark's own tasks."""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tocsin.storage.log import Reader
from tocsin.storage.log.kafka import KafkaAddress, KafkaReader
from tocsin.storage.log.segments import SegmentReader, segments

# CCCCCCCC {"p":120,"t":…   the position's first digit is the fifteenth character
_STAMP = "substring(value, 15, 21)"
_DIGITS = f"substring_index({_STAMP}, ',', 1)"
_POSITION = f"if(contains({_STAMP}, ','), try_cast({_DIGITS} AS BIGINT), NULL)"
_CRC = "lpad(lower(hex(crc32(substring(CAST(value AS BINARY), 10)))), 8, '0')"
_WHOLE = f"(substring(value, 1, 9) = concat({_CRC}, ' '))"
_FILLER = f"""(substring(value, 15 + length({_DIGITS}), 14) = ',"t":0,"lost":')"""
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
    raw_lines = spark.read.text(paths, lineSep="\n")
    if not are_all_there(raw_lines, start, end):
        raise log.damage(dataset, start, end)
    return raw_lines.transform(keep_positions, start, end)


def keep_records(messages: DataFrame) -> DataFrame:
    """Of the messages of a dataset's topic those that are records, as JSON in the column `line`.
    Others may have written there too."""
    return messages.where(_KAFKA_RECORD).selectExpr(f"{_KAFKA_LINE} AS line")


def kafka_options(address: KafkaAddress) -> dict[str, str]:
    """How Spark's Kafka source and sink reach the cluster."""
    return {f"kafka.{key}": value for key, value in address.java().items()}


def _offsets(topic: str, position: int) -> str:
    return msgspec.json.encode({topic: {"0": position}}).decode()


def are_all_there(raw_lines: DataFrame, start: int, end: int) -> bool:
    """Whether whole lines fill [start, end), without a hole and without one that is there twice.

    Each line begins where another ends, so that its hash and that one's undo each other: what is
    left in the end are those of `start` and `end`.
    """
    ends = f"{_POSITION} + octet_length(value) + 1"
    left = f"bit_xor(xxhash64({_POSITION})) ^ bit_xor(xxhash64({ends}))"
    wanted = f"xxhash64({start}L) ^ xxhash64({end}L)"
    whole = raw_lines.where(f"{_WHOLE} AND {_POSITION} >= {start} AND {_POSITION} < {end}")
    (told,) = whole.selectExpr(f"{left} = {wanted} AS filled").collect()
    return start >= end or told.filled is True


def keep_positions(raw_lines: DataFrame, start: int, end: int) -> DataFrame:
    """Of a segment's text lines those in [start, end) that hold records, as JSON in the column
    `line`.

    The position is cut out of the text, so that only wanted lines are parsed. A line that its
    writer has not finished is beyond every end; if even its position is torn, no comma follows.
    """
    wanted = raw_lines.where(f"{_POSITION} >= {start} AND {_POSITION} < {end} AND NOT {_FILLER}")
    checked = f"if({_WHOLE}, substring(value, 10), raise_error('a line of the log is damaged'))"
    return wanted.selectExpr(f"{checked} AS line")
