"""Continuous channels in Spark's real-time mode: milliseconds instead of micro-batches.

A channel is a query of its own (one more for each combination of open parameters in use): its
dataset's topic, joined with the parameter sets that the store holds, into the topic of matches. The
parameter sets are read again at every batch, so a new subscription takes effect within one. After a
crash Spark repeats up to a batch; whoever takes the matches drops what it knows.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import Unavailable
from tocsin.model import Channel, Dataset
from tocsin.pipeline.channels import CompiledChannel
from tocsin.pipeline.channels.matching import payloads
from tocsin.pipeline.channels.openings import Mask
from tocsin.pipeline.channels.parameters import (
    add_keys,
    finish_facts,
    gather_facts,
    typed_parameters,
)
from tocsin.pipeline.channels.parts import PARAMETERS_MARKER, Part
from tocsin.pipeline.channels.query import new_marker
from tocsin.pipeline.channels.views import run_sql
from tocsin.pipeline.jdbc import Jdbc
from tocsin.pipeline.log_lines import kafka_options, keep_records
from tocsin.pipeline.records import parse
from tocsin.storage.log.kafka import KafkaAddress

log = structlog.get_logger()

NOTHING_OPEN: Mask = frozenset()
Position = int


class _Feed(Struct):
    """The queries of one channel."""

    channel: Channel
    compiled: CompiledChannel
    queries: dict[Mask, StreamingQuery] = {}
    reached: dict[Mask, Position] = {}

    @property
    def dataset(self) -> str:
        (name,) = self.compiled.new
        return name


class RealTime:
    """All channels that run in real-time mode. `masks` tells which parameters the subscriptions of
    a channel leave open, `end` where a dataset's log ends now."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaAddress,
        jdbc: Jdbc,
        dataset: Callable[[str], Dataset],
        masks: Callable[[str], set[Mask]],
        end: Callable[[str], Position],
        directory: Path,
        *,
        batch_s: float,
        slots: int,
    ) -> None:
        self._spark = spark
        self._kafka = kafka
        self._jdbc = jdbc
        self._dataset = dataset
        self._masks = masks
        self._end = end
        self._directory = directory
        self._batch_s = batch_s
        self._slots = slots
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

    def watch(self, channel: Channel, compiled: CompiledChannel) -> None:
        """Take the channel up, where it was left or at its creation. Raises Unavailable when that
        cannot be done yet; unless it is unwatched, `look_after` tries again."""
        with self._lock:
            feed = self._feeds[channel.name] = _Feed(channel, compiled)
            kept = {self._checkpoint(feed, mask) for mask in self._wanted(feed)}
            for stale in self._directory.glob(f"{channel.name}-*"):
                if stale not in kept:  # its subscriptions are gone: others must not go on from it
                    shutil.rmtree(stale, ignore_errors=True)
            self._follow(feed)

    def unwatch(self, name: str) -> None:
        with self._lock:
            feed = self._feeds.pop(name, None)
        if feed is not None:
            for query in feed.queries.values():
                query.stop()

    def look_after(self) -> None:
        """Start again what died, follow what subscriptions leave open. Called now and then."""
        with self._lock:
            for feed in self._feeds.values():
                for mask, query in feed.queries.items():
                    if not query.isActive:
                        log.error(
                            "a channel's real-time query stopped and is started again",
                            channel=feed.channel.name,
                            reason=_reason(query),
                        )
                        feed.queries[mask] = self._start(feed, mask)
                self._follow(feed)

    def passed(self) -> dict[str, Position]:
        """For each dataset read here, the end below which nothing is needed again."""
        needed: dict[str, Position] = {}
        with self._lock:
            for feed in self._feeds.values():
                for mask, query in feed.queries.items():
                    reached = self._reached(feed, mask, query)
                    needed[feed.dataset] = min(needed.get(feed.dataset, reached), reached)
        return needed

    def stop(self) -> None:
        for name in list(self._feeds):
            self.unwatch(name)

    def _taken(self) -> int:
        return sum(max(1, len(feed.queries)) for feed in self._feeds.values())

    def _wanted(self, feed: _Feed) -> set[Mask]:
        needed = feed.compiled.openings.needed
        openable = any(each.name not in needed for each in feed.channel.parameters)
        return {NOTHING_OPEN, *(self._masks(feed.channel.name) if openable else ())}

    def _follow(self, feed: _Feed) -> None:
        """A query for each combination of open parameters in use, and no other."""
        wanted = self._wanted(feed)
        for mask in feed.queries.keys() - wanted:
            feed.queries.pop(mask).stop()
            shutil.rmtree(self._checkpoint(feed, mask), ignore_errors=True)
        for mask in sorted(wanted - feed.queries.keys(), key=len):  # what leaves nothing open first
            if mask and self._taken() >= self._slots:
                log.error(
                    "subscriptions with open parameters wait for a real-time slot",
                    channel=feed.channel.name,
                    open=sorted(mask),
                    hint="raise the setting real_time_slots",
                )
                return
            feed.queries[mask] = self._start(feed, mask)

    def _reached(self, feed: _Feed, mask: Mask, query: StreamingQuery) -> Position:
        progress = query.lastProgress
        if progress is not None and progress.sources[0].endOffset:
            offsets = msgspec.json.decode(progress.sources[0].endOffset)
            feed.reached[mask] = int(offsets[self._kafka.topic(feed.dataset)]["0"])
        return feed.reached.get(mask, 0)  # before the first progress nothing is known: keep all

    def _checkpoint(self, feed: _Feed, mask: Mask) -> Path:
        """A channel that was dropped and made again, and other open parameters, begin anew."""
        names = (feed.channel.name, str(round(feed.channel.created_at * 1e6)), *sorted(mask))
        return self._directory / "-".join(names)

    def _start(self, feed: _Feed, mask: Mask) -> StreamingQuery:
        topic = self._kafka.topic(feed.dataset)
        start = feed.channel.starts.get(feed.dataset, 0)
        if mask:  # its first subscription has just been made
            start = self._end(feed.dataset)
        lines = (
            self._spark.readStream.format("kafka")
            .options(**kafka_options(self._kafka))
            .option("subscribe", topic)
            .option("startingOffsets", msgspec.json.encode({topic: {"0": start}}).decode())
            .load()
            .transform(keep_records)
        )
        part = feed.compiled.streaming_part(mask)
        records = parse(lines, self._dataset(feed.dataset))
        matched = payloads(self._joined(feed, part, mask, records))
        writer: Any = (  # PySpark's annotations do not know the real-time trigger yet
            matched.selectExpr(_KEY, _value(feed.channel.name))
            .writeStream.queryName("-".join(("real-time", feed.channel.name, *sorted(mask))))
            .format("kafka")
            .options(**kafka_options(self._kafka))
            .option("kafka.linger.ms", "0")
            .option("topic", self._kafka.matches_topic)
            .option("checkpointLocation", str(self._checkpoint(feed, mask)))
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
            _leaves_open((each.name for each in feed.channel.parameters), mask)
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
        found = f"""contains(arguments, '"{name}":{{"any":true}}')"""
        tests.append(found if name in mask else f"NOT {found}")
    return " AND ".join(tests) or "true"


_KEY = "CAST(__backend AS STRING) AS key"


def _value(channel: str) -> str:
    return (
        f"""concat('{{"c":"{channel}","b":', __backend, ',"p":', __order,"""
        """ ',"v":', payload, '}') AS value"""
    )


def _cause(error: PySparkException) -> str:
    """What the driver said: Spark's own message hides it behind others."""
    cause = getattr(error, "_origin", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() if cause is not None else error).strip().splitlines()[0][:300]


def _reason(query: StreamingQuery) -> str:
    return str(query.exception() or "no reason was told").strip().splitlines()[0][:500]
