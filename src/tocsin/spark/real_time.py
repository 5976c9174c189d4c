"""Continuous channels in Spark's real-time mode: milliseconds instead of micro-batches.

A channel is a query of its own (one more for each combination of open parameters in use): its
dataset's topic, joined with the parameter sets that the store holds, into the topic of matches. The
parameter sets are read again at every batch, so a new subscription takes effect within one (until
then see `newcomers`). A query always begins where the store says that the channel stands: Spark's
checkpoint lives no longer than the query. What comes twice is dropped by whoever takes the matches.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import Unavailable, is_bug
from tocsin.model import Channel, Dataset
from tocsin.protocol import columns
from tocsin.protocol.match import match_template
from tocsin.service.trouble import Troubles
from tocsin.spark.channels import CompiledChannel
from tocsin.spark.channels.matching import payloads
from tocsin.spark.channels.openings import Mask
from tocsin.spark.channels.parameters import (
    add_keys,
    finish_facts,
    gather_facts,
    typed_parameters,
)
from tocsin.spark.channels.parts import Part
from tocsin.spark.channels.query import PARAMETERS_MARKER, new_marker
from tocsin.spark.channels.views import run_sql
from tocsin.spark.failures import Blame, blame, reason
from tocsin.spark.jdbc import Jdbc
from tocsin.spark.log_lines import kafka_options, keep_records
from tocsin.spark.records import parse
from tocsin.storage.log.kafka import KafkaAddress

log = structlog.get_logger()

NOTHING_OPEN: Mask = frozenset()
Position = int


class Batch(Struct, frozen=True):
    """A batch of a query: before when it did not begin, and with which record it does. It looks at
    every parameter set that was stored by then."""

    began_at: float
    start: Position


class _Running(Struct):
    """A query, and up to where it has surely written its matches."""

    query: StreamingQuery
    reached: Position
    checkpoint: Path
    batch: Batch


class _Feed(Struct):
    """The queries of one channel. `begin`: where new ones start."""

    channel: Channel
    compiled: CompiledChannel
    begin: Position
    queries: dict[Mask, _Running] = {}

    @property
    def dataset(self) -> str:
        (name,) = self.compiled.new
        return name


class RealTimeConfig(Struct, frozen=True):
    kafka: KafkaAddress  # of the publication log, and of the matches
    jdbc: Jdbc  # of the store, where the parameter sets are
    directory: Path  # for the checkpoints that Spark wants
    batch_s: float  # how long a batch lasts
    slots: int  # how many queries may run
    base: Callable[[str], int]  # of a dataset's positions, which are offsets behind it


class RealTime:
    """All channels that run in real-time mode. `masks` returns which parameters the subscriptions
    of a channel leave open; `troubles` takes the channels whose queries do not run."""

    def __init__(
        self,
        spark: SparkSession,
        config: RealTimeConfig,
        dataset: Callable[[str], Dataset],
        masks: Callable[[str], set[Mask]],
        troubles: Troubles,
    ) -> None:
        self._spark = spark
        self._kafka = config.kafka
        self._jdbc = config.jdbc
        self._dataset = dataset
        self._masks = masks
        self._directory = config.directory
        self._troubles = troubles
        self._batch_s = config.batch_s
        self._slots = config.slots
        self._base = config.base
        self._feeds: dict[str, _Feed] = {}
        self._lock = threading.RLock()

    def why_not(self, compiled: CompiledChannel) -> str:
        """Why the channel must run in micro-batches; empty if it need not."""
        if compiled.channel.delivery is not None and compiled.channel.delivery.counts:
            # Matches of one record come apart here: always from the queries of several masks, at
            # times from one.
            return "its admission policy counts all who match a record, so they must come together"
        if compiled.stored:
            return f"it reads the stored dataset {compiled.stored[0]}"
        if len(compiled.new) != 1 or len(compiled.parts) != 1:
            return "it combines several queries or datasets"
        if compiled.uses_window:
            return "it looks at its run's window"
        (part,) = compiled.parts
        if part.not_streamable:
            return part.not_streamable
        if part.keys is None and part.strategy != "hash join":
            return part.why
        with self._lock:
            if self._taken() >= self._slots:
                return f"all {self._slots} real-time slots are taken (setting real_time_slots)"
        return ""

    def watch(self, channel: Channel, compiled: CompiledChannel, begin: Position) -> None:
        """Take the channel up at a position. Raises what keeps its query from being started;
        unless it is unwatched, `look_after` tries again."""
        with self._lock:
            self._stop_queries(channel.name)
            feed = self._feeds[channel.name] = _Feed(channel, compiled, begin)
            self._follow(feed)

    def unwatch(self, name: str) -> None:
        with self._lock:
            self._stop_queries(name)
            self._feeds.pop(name, None)
            self._troubles.clear(name)

    def look_after(self) -> dict[str, Exception]:
        """Follow what subscriptions leave open, and start again what the machinery stopped. Returns
        which channels' own queries failed, and why: they wait until they are watched again."""
        failed: dict[str, Exception] = {}
        with self._lock:
            for name, feed in self._feeds.items():
                try:
                    stopped, failure = self._look_after(feed)
                except Exception as error:  # Kafka or the store is away: it is tried again
                    if is_bug(error):
                        raise
                    stopped, failure = reason(error), None
                if failure is not None:
                    failed[name] = failure
                elif not stopped:
                    self._troubles.clear(name)
                elif self._troubles.put(name, f"its query does not run: {stopped}"):
                    log.error("a real-time query does not run", channel=name, reason=stopped)
        return failed

    def _look_after(self, feed: _Feed) -> tuple[str, Exception | None]:
        """Why a query of the channel had been stopped, if one was; and its own failure, if that is
        why."""
        stopped = ""
        for mask, running in list(feed.queries.items()):
            self._look_at(feed, running)
            if running.query.isActive:
                continue
            error = running.query.exception()
            if error is not None and blame(error) in (Blame.QUERY, Blame.MEMORY):
                return "", error
            stopped = "nobody knows why" if error is None else reason(error)
            self._discard(running)
            feed.queries[mask] = self._start(feed, mask, running.reached)
        self._follow(feed)
        return stopped, None

    def passed(self) -> dict[str, Position]:
        """For each dataset read here, the end below which nothing is needed again."""
        needed: dict[str, Position] = {}
        with self._lock:
            for feed in self._feeds.values():
                reached = self._reached(feed)
                needed[feed.dataset] = min(needed.get(feed.dataset, reached), reached)
        return needed

    def reached(self, name: str) -> Position | None:
        """Below which position every match of the channel has been written."""
        with self._lock:
            feed = self._feeds.get(name)
            return None if feed is None else self._reached(feed)

    def batches(self, name: str) -> dict[Mask, Batch]:
        """The batch that each query of the channel is at, behind the newest that it has finished.
        Should it fail, another one begins at the same record."""
        with self._lock:
            feed = self._feeds.get(name)
            queries = {} if feed is None else feed.queries
            return {mask: running.batch for mask, running in queries.items()}

    def is_running(self, name: str) -> bool:
        with self._lock:
            feed = self._feeds.get(name)
            return (
                feed is not None
                and len(feed.queries) > 0
                and all(running.query.isActive for running in feed.queries.values())
            )

    def stop(self) -> None:
        with self._lock:
            for name in list(self._feeds):
                self.unwatch(name)

    def _stop_queries(self, name: str) -> None:
        feed = self._feeds.get(name)
        if feed is not None:
            for running in feed.queries.values():
                self._discard(running)
            feed.queries = {}

    def _discard(self, running: _Running) -> None:
        if running.query.isActive:
            running.query.stop()
        shutil.rmtree(running.checkpoint, ignore_errors=True)

    def _taken(self) -> int:
        return sum(max(1, len(feed.queries)) for feed in self._feeds.values())

    def _wanted(self, feed: _Feed) -> set[Mask]:
        needed = feed.compiled.openings.needed
        openable = any(parameter.name not in needed for parameter in feed.channel.parameters)
        return {NOTHING_OPEN, *(self._masks(feed.channel.name) if openable else ())}

    def _follow(self, feed: _Feed) -> None:
        """A query for each combination of open parameters in use, and no other."""
        wanted = self._wanted(feed)
        for mask in feed.queries.keys() - wanted:
            self._discard(feed.queries.pop(mask))
        for mask in sorted(wanted - feed.queries.keys(), key=len):  # what leaves nothing open first
            if mask and self._taken() >= self._slots:
                log.error(
                    "subscriptions with open parameters wait for a real-time slot",
                    channel=feed.channel.name,
                    open=sorted(mask),
                    hint="raise the setting real_time_slots",
                )
                return
            begin = self._reached(feed) if feed.queries else feed.begin
            feed.queries[mask] = self._start(feed, mask, begin)

    def _look_at(self, feed: _Feed, running: _Running) -> None:
        """Take note of the newest batch that is done."""
        progress = running.query.lastProgress
        if progress is None or not progress.sources[0].endOffset:
            return
        (source,) = progress.sources
        end = self._offset(feed, source.endOffset)
        if end is not None:
            running.reached = max(running.reached, end)
            ended_at = _began_at(progress.timestamp) + progress.batchDuration / 1000
            running.batch = Batch(ended_at, end)

    def _offset(self, feed: _Feed, text: str | None) -> Position | None:
        offsets = msgspec.json.decode(text or "null")
        if offsets is None:
            return None
        offset = int(offsets[self._kafka.topic(feed.dataset)]["0"])
        return offset + self._base(feed.dataset)

    def _reached(self, feed: _Feed) -> Position:
        return min((running.reached for running in feed.queries.values()), default=feed.begin)

    def _start(self, feed: _Feed, mask: Mask, begin: Position) -> _Running:
        """A checkpoint of its own: Spark wants one, and nobody relies on it."""
        checkpoint = self._directory / f"{feed.channel.name}-{uuid.uuid4().hex[:12]}"
        first = Batch(time.time(), begin)
        query = self._begin(feed, mask, begin, checkpoint)
        return _Running(query, begin, checkpoint, first)

    def _begin(self, feed: _Feed, mask: Mask, begin: Position, checkpoint: Path) -> StreamingQuery:
        topic, base = self._kafka.topic(feed.dataset), self._base(feed.dataset)
        lines = (
            self._spark.readStream.format("kafka")
            .options(**kafka_options(self._kafka))
            .option("subscribe", topic)
            .option("startingOffsets", msgspec.json.encode({topic: {"0": begin - base}}).decode())
            .load()
            .transform(keep_records, base)
        )
        part = feed.compiled.streaming_part(mask)
        records = parse(lines, self._dataset(feed.dataset))
        matched = payloads(self._joined(feed, part, mask, records))
        writer: Any = (  # PySpark's annotations do not know the real-time trigger yet
            matched.select(*match_columns(feed.channel.name))
            .writeStream.queryName("-".join(("real-time", feed.channel.name, *sorted(mask))))
            .format("kafka")
            .options(**kafka_options(self._kafka))
            .option("kafka.linger.ms", "0")
            .option("topic", self._kafka.matches_topic)
            .option("checkpointLocation", str(checkpoint))
            .outputMode("update")
        )
        every = f"{round(self._batch_s * 1000)} milliseconds"
        query: StreamingQuery = writer.trigger(realTime=every).start()
        return query

    def _parameter_sets(self, channel: str) -> DataFrame:
        options = self._jdbc.parameter_sets(channel)
        try:
            return self._spark.read.format("jdbc").options(**options).load()
        except PySparkException as error:
            raise Unavailable(
                f"Spark cannot read the subscriptions of channel {channel}: {_cause(error)}",
                field="store",
                hint="the store's address must work for Java, too; or set real_time_slots to 0",
            ) from error

    def _joined(self, feed: _Feed, part: Part, mask: Mask, records: DataFrame) -> DataFrame:
        """As `matching.rows`, with parameter sets that are read again at every batch."""
        name = feed.channel.name
        sets = self._parameter_sets(name).where(
            _leaves_open((parameter.name for parameter in feed.channel.parameters), mask)
        )
        frame = typed_parameters(sets, part.parameters)
        # What the query knows of all sets together must hold for those to come, too: as boundaries
        # of ranges do, between which any value falls.
        facts = finish_facts(gather_facts(part, frame))
        tables = {
            PARAMETERS_MARKER: add_keys(part, frame, facts),
            new_marker(feed.dataset): records,
        }
        return run_sql(self._spark, part.sql, tables, facts)


def _leaves_open(parameters: Iterable[str], mask: Mask) -> str:
    """Which sets leave exactly these open, by their canonical text: there a quotation mark inside a
    value has a backslash before it."""
    tests = []
    for name in parameters:
        is_open = f"""contains(arguments, '"{name}":{{"any":true}}')"""
        tests.append(is_open if name in mask else f"NOT {is_open}")
    return " AND ".join(tests) or "true"


def match_columns(channel: str) -> tuple[Column, Column]:
    """A match as Kafka's sink takes it: `key` and `value`."""
    backend = F.col(columns.BACKEND).cast("string")
    value = match_template(
        F.lit,
        channel=F.lit(f'"{channel}"'),
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
