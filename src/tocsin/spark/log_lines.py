"""Many records of the publication log as a DataFrame, read by Spark's own tasks."""

from __future__ import annotations

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.protocol import log_line
from tocsin.spark.records import LINE
from tocsin.storage.log import Reader
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.log.segments import SegmentReader, segments

# `log_line.decode` in SQL. Spark counts characters from 1; up to the position all are ASCII.
_BODY_AT = log_line.PREFIX_BYTES + 1
_POSITION_AT = _BODY_AT + len(log_line.BODY_START)
_DIGITS_AND_COMMA = f"substring(value, {_POSITION_AT}, 21)"
_DIGITS = f"substring_index({_DIGITS_AND_COMMA}, ',', 1)"
_POSITION = f"if(contains({_DIGITS_AND_COMMA}, ','), try_cast({_DIGITS} AS BIGINT), NULL)"
_BODY = f"substring(value, {_BODY_AT})"
_CRC = f"crc32(substring(CAST(value AS BINARY), {_BODY_AT}))"
_CHECKSUM = f"lpad(lower(hex({_CRC})), {log_line.CHECKSUM_BYTES}, '0')"
_WHOLE = f"(substring(value, 1, {log_line.PREFIX_BYTES}) = concat({_CHECKSUM}, ' '))"
_AFTER_POSITION = (
    f"substring(value, {_POSITION_AT} + length({_DIGITS}), {len(log_line.FILLER_START)})"
)
_FILLER = f"({_AFTER_POSITION} = '{log_line.FILLER_START}')"


def log_lines(spark: SparkSession, log: Reader, dataset: str, start: int, end: int) -> DataFrame:
    """The records in [start, end), as JSON in the column `line`."""
    if isinstance(log, SegmentReader):
        paths = [str(path) for path in segments(log.directory, dataset, start, end)]
        raw_lines = spark.read.text(paths, lineSep="\n")
        if not are_all_there(raw_lines, start, end):
            raise log.damage(dataset, start, end)
        return raw_lines.transform(keep_positions, start, end)
    from tocsin.storage.log.kafka import KafkaReader

    assert isinstance(log, KafkaReader)
    topic, base = log.kafka.topic(dataset), log.base(dataset)
    return (
        spark.read.format("kafka")
        .options(**kafka_options(log.kafka))
        .option("subscribe", topic)
        .option("startingOffsets", _offsets(topic, start - base))
        .option("endingOffsets", _offsets(topic, end - base))
        .load()
        .transform(keep_records, base)
    )


def keep_records(messages: DataFrame, base: int = 0) -> DataFrame:
    """Of the messages of a dataset's topic those that are records, as JSON in the column `line`.
    Others may have written there too. Positions count from the dataset's `base`."""
    return messages.where(
        F.col("value").cast("string").rlike(f"^{log_line.MESSAGE_PATTERN}")
    ).selectExpr(f"{_message_body(base)} AS {LINE}")


def _message_body(base: int) -> str:
    """`log_line.message_body` in SQL."""
    rest = "substring(CAST(value AS STRING), 2)"
    return f"concat('{log_line.BODY_START}', offset + {base}L, ',', {rest})"


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
    (row,) = whole.selectExpr(f"{left} = {wanted} AS filled").collect()
    return start >= end or row.filled is True


def keep_positions(raw_lines: DataFrame, start: int, end: int) -> DataFrame:
    """Of a segment's text lines those in [start, end) that hold records, as JSON in the column
    `line`.

    The position is cut out of the text, so that only wanted lines are parsed. A line that its
    writer has not finished is beyond every end; if even its position is torn, no comma follows.
    """
    wanted = raw_lines.where(f"{_POSITION} >= {start} AND {_POSITION} < {end} AND NOT {_FILLER}")
    checked = f"if({_WHOLE}, {_BODY}, raise_error('a line of the log is damaged'))"
    return wanted.selectExpr(f"{checked} AS {LINE}")
