"""What Spark does for queries that channels share: it starts them, and tries them over a range.

A query always begins where it is told to: Spark's checkpoint lives no longer than the query. The
parameter sets are read again at every batch.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import TooLarge, Unavailable
from tocsin.model import Dataset
from tocsin.protocol import columns
from tocsin.protocol.match import match_template
from tocsin.spark.failures import Blame, blame
from tocsin.spark.jdbc import Jdbc
from tocsin.spark.log_lines import kafka_options, keep_records, log_lines
from tocsin.spark.real_time.joining import matches, trying_session
from tocsin.spark.real_time.newcomers import Batch
from tocsin.spark.real_time.shared import SharedText
from tocsin.spark.records import parse
from tocsin.storage.log import Reader
from tocsin.storage.log.kafka import KafkaAddress

Position = int

_MOST_MATCH_BYTES = 1_000_000  # a little less than what Kafka's producer sends by itself


class StreamingConfig(Struct, frozen=True):
    kafka: KafkaAddress  # of the publication log, and of the matches
    jdbc: Jdbc  # of the store, where the parameter sets are
    directory: Path  # for the checkpoints that Spark wants
    batch_s: float  # how long a batch lasts
    reader: Reader  # of the publication log
    base: Callable[[str], int]  # of a dataset's positions, which are offsets behind it


class Running(Struct):
    """A query, and up to where it has surely written its matches."""

    dataset: str
    text: SharedText
    query: StreamingQuery
    checkpoint: Path
    started_at: float  # by the steady clock
    reached: Position
    batch: Batch

    @property
    def channels(self) -> tuple[str, ...]:
        return self.text.channels


class Streaming:
    """`spark` is a session for this alone, `dataset` returns one by its name."""

    def __init__(
        self, spark: SparkSession, config: StreamingConfig, dataset: Callable[[str], Dataset]
    ) -> None:
        self._spark = spark
        self._trying = trying_session(spark)
        self._config = config
        self._kafka = config.kafka
        self._dataset = dataset

    def start(self, text: SharedText, dataset: str, begin: Position) -> Running:
        """A checkpoint of its own: Spark wants one, and nobody relies on it."""
        checkpoint = self._config.directory / f"{dataset}-{uuid.uuid4().hex[:12]}"
        first = Batch(time.time(), begin)
        lines = (
            self._spark.readStream.format("kafka")
            .options(**kafka_options(self._kafka))
            .option("subscribe", self._kafka.topic(dataset))
            .option("startingOffsets", self._offsets(dataset, begin))
            .load()
            .transform(keep_records, self._config.base(dataset))
        )
        writer: Any = (  # PySpark's annotations do not know the real-time trigger yet
            self._matches(self._spark, text, dataset, lines)
            .select(*match_columns())
            .writeStream.queryName(f"real-time-{checkpoint.name}")
            .format("kafka")
            .options(**kafka_options(self._kafka))
            .option("kafka.linger.ms", "0")
            .option("topic", self._kafka.matches_topic)
            .option("checkpointLocation", str(checkpoint))
            .outputMode("update")
        )
        every = f"{round(self._config.batch_s * 1000)} milliseconds"
        query: StreamingQuery = writer.trigger(realTime=every).start()
        return Running(dataset, text, query, checkpoint, time.monotonic(), begin, first)

    def note_batch(self, running: Running) -> None:
        """Take note of the newest batch that is done."""
        progress = running.query.lastProgress
        if progress is None or not progress.sources[0].endOffset:
            return
        (source,) = progress.sources
        offsets = msgspec.json.decode(source.endOffset or "null")
        if offsets is not None:
            topic, base = self._kafka.topic(running.dataset), self._config.base(running.dataset)
            running.reached = max(running.reached, int(offsets[topic]["0"]) + base)
            ended_at = _began_at(progress.timestamp) + progress.batchDuration / 1000
            running.batch = Batch(ended_at, running.reached)

    def failure(
        self, text: SharedText, dataset: str, start: Position, end: Position
    ) -> Exception | None:
        """What the query fails on with these records, if it does. What Spark or the store cannot do
        now is raised."""
        try:
            lines = log_lines(self._trying, self._config.reader, dataset, start, end)
            joined = self._matches(self._trying, text, dataset, lines)
            largest = joined.agg(F.max(F.octet_length(columns.PAYLOAD))).first()
        except Exception as error:
            if blame(error) in (Blame.QUERY, Blame.MEMORY):
                return error
            raise
        size = (largest[0] if largest is not None else None) or 0
        return TooLarge(f"a result of {size} bytes") if size > _MOST_MATCH_BYTES else None

    def _matches(
        self, spark: SparkSession, text: SharedText, dataset: str, lines: DataFrame
    ) -> DataFrame:
        sets = self._parameter_sets(spark, text.channels)
        records = parse(lines, self._dataset(dataset))
        return matches(spark, text, sets, records, checked=True)

    def _parameter_sets(self, spark: SparkSession, channels: Sequence[str]) -> DataFrame:
        options = self._config.jdbc.parameter_sets(channels)
        try:
            return spark.read.format("jdbc").options(**options).load()
        except PySparkException as error:
            raise Unavailable(
                f"Spark cannot read the subscriptions of channels: {_cause(error)}",
                field="store",
                hint="the store's address must work for Java, too; or set real_time_slots to 0",
            ) from error

    def _offsets(self, dataset: str, position: Position) -> str:
        offset = position - self._config.base(dataset)
        return msgspec.json.encode({self._kafka.topic(dataset): {"0": offset}}).decode()


def discard(running: Running) -> None:
    if running.query.isActive:
        running.query.stop()
    shutil.rmtree(running.checkpoint, ignore_errors=True)


def match_columns() -> tuple[Column, Column]:
    """A match as Kafka's sink takes it: `key` and `value`."""
    backend = F.col(columns.BACKEND).cast("string")
    value = match_template(
        F.lit,
        channel=F.concat(F.lit('"'), F.col(columns.CHANNEL), F.lit('"')),
        backend=backend,
        position=F.col(columns.ORDER).cast("string"),
        payload=F.col(columns.PAYLOAD),
    )
    return backend.alias("key"), F.concat(*value).alias("value")


def _cause(error: PySparkException) -> str:
    """What the driver said: Spark's own message hides it behind others."""
    cause = getattr(error, "_origin", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() if cause is not None else error).strip().splitlines()[0][:300]


def _began_at(timestamp: str) -> float:
    """When a batch began: Spark gives it as text, in UTC."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
