"""Continuous channels in Spark's real-time mode: milliseconds instead of micro-batches.

Each channel is a query of its own: its dataset's topic, joined with the parameter sets that the
store holds, into the topic of matches. The parameter sets are read again at every batch
(`real_time_batch_s`), so a new subscription takes effect within one. After a crash Spark repeats up
to a batch; whoever takes the matches drops what it knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.model import Channel, Dataset
from tocsin.pipeline.channels import CompiledChannel
from tocsin.pipeline.channels.compile import PARAMETERS_MARKER
from tocsin.pipeline.channels.matching import payloads
from tocsin.pipeline.channels.near import LEVELS
from tocsin.pipeline.channels.parameters import (
    add_keys,
    finish_facts,
    gather_facts,
    typed_parameters,
)
from tocsin.pipeline.channels.query import new_marker
from tocsin.pipeline.channels.views import run_sql
from tocsin.pipeline.jdbc import Jdbc
from tocsin.pipeline.log_lines import KAFKA_LINE, kafka_options
from tocsin.pipeline.records import parse
from tocsin.storage.log.kafka import KafkaAddress

log = structlog.get_logger()


class _Running(Struct):
    channel: Channel
    compiled: CompiledChannel
    query: StreamingQuery
    progress: int | None = None


class RealTime:
    """All channels that run in real-time mode."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaAddress,
        jdbc: Jdbc,
        dataset: Callable[[str], Dataset],
        directory: Path,
        *,
        batch_s: float,
        slots: int,
    ) -> None:
        self._spark = spark
        self._kafka = kafka
        self._jdbc = jdbc
        self._dataset = dataset
        self._directory = directory
        self._batch_s = batch_s
        self._slots = slots
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()

    def why_not(self, compiled: CompiledChannel) -> str:
        """Why the channel must run in micro-batches; empty if it need not."""
        if compiled.form != "flat":
            return f"its form is {compiled.form}, and real-time mode takes flat ones only"
        if compiled.stored:
            return f"it reads the stored dataset {compiled.stored[0]}"
        if len(compiled.new) != 1:
            return "it reads several datasets"
        if compiled.not_streamable:
            return compiled.not_streamable
        with self._lock:
            if len(self._running) >= self._slots:
                return f"all {self._slots} real-time slots are taken (setting real_time_slots)"
        return ""

    def watch(self, channel: Channel, compiled: CompiledChannel) -> None:
        query = self._start(channel, compiled)
        with self._lock:
            self._running[channel.name] = _Running(channel, compiled, query)

    def unwatch(self, name: str) -> None:
        with self._lock:
            running = self._running.pop(name, None)
        if running is not None:
            running.query.stop()

    def restart_if_failed(self) -> None:
        with self._lock:
            failed = [one for one in self._running.values() if not one.query.isActive]
        for one in failed:
            log.error(
                "a channel's real-time query stopped and is started again",
                channel=one.channel.name,
                reason=_first_line(one.query),
            )
            one.query = self._start(one.channel, one.compiled)

    def passed(self) -> dict[str, int]:
        """For each dataset read here, the end below which nothing is needed again."""
        with self._lock:
            running = list(self._running.values())
        needed: dict[str, int] = {}
        for one in running:
            (name,) = one.compiled.new
            reached = self._reached(one, name)
            needed[name] = min(needed.get(name, reached), reached)
        return needed

    def stop(self) -> None:
        with self._lock:
            running, self._running = list(self._running.values()), {}
        for one in running:
            one.query.stop()

    def _reached(self, one: _Running, dataset: str) -> int:
        progress = one.query.lastProgress
        if progress is not None and progress.sources[0].endOffset:
            offsets = msgspec.json.decode(progress.sources[0].endOffset)
            one.progress = int(offsets[self._kafka.topic(dataset)]["0"])
        # Before the first progress since the start nothing is known: keep everything.
        return one.progress if one.progress is not None else 0

    def _start(self, channel: Channel, compiled: CompiledChannel) -> StreamingQuery:
        (name,) = compiled.new
        topic = self._kafka.topic(name)
        start = msgspec.json.encode({topic: {"0": channel.starts.get(name, 0)}}).decode()
        lines = (
            self._spark.readStream.format("kafka")
            .options(**kafka_options(self._kafka))
            .option("subscribe", topic)
            .option("startingOffsets", start)
            .load()
            .selectExpr(f"{KAFKA_LINE} AS line")
        )
        matched = payloads(self._joined(compiled, parse(lines, self._dataset(name))))
        created = round(channel.created_at * 1e6)
        writer: Any = (  # PySpark's annotations do not know the real-time trigger yet
            matched.select(
                F.col("__backend").cast("string").alias("key"),
                F.concat(
                    F.lit(f'{{"c":"{channel.name}","b":'),
                    F.col("__backend"),
                    F.lit(',"p":'),
                    F.col("__order"),
                    F.lit(',"v":'),
                    F.col("payload"),
                    F.lit("}"),
                ).alias("value"),
            )
            .writeStream.queryName(f"real-time-{channel.name}")
            .format("kafka")
            .options(**kafka_options(self._kafka))
            .option("kafka.linger.ms", "0")
            .option("topic", self._kafka.matches_topic)
            .option("checkpointLocation", str(self._directory / f"{channel.name}-{created}"))
            .outputMode("update")
        )
        query: StreamingQuery = writer.trigger(
            realTime=f"{round(self._batch_s * 1000)} milliseconds"
        ).start()
        return query

    def _joined(self, compiled: CompiledChannel, records: DataFrame) -> DataFrame:
        """As `matching.rows`, with parameter sets that are read again at every batch."""
        (name,) = compiled.new
        sets = (
            self._spark.read.format("jdbc")
            .options(**self._jdbc.parameter_sets(compiled.channel.name))
            .load()
        )
        frame = typed_parameters(sets, compiled.channel)
        # What the query knows of all sets together holds for those to come, too: every level of
        # the grid, and boundaries that any value falls between.
        facts = finish_facts(gather_facts(compiled, frame))
        if "__levels" in facts:
            facts["__levels"] = msgspec.json.encode(list(LEVELS)).decode()
        parameters = add_keys(compiled, frame, facts)
        tables = {PARAMETERS_MARKER: parameters, new_marker(name): records}
        return run_sql(self._spark, compiled.streaming_sql, tables, facts)


def _first_line(query: StreamingQuery) -> str:
    return str(query.exception() or "no reason was told").strip().splitlines()[0][:500]
