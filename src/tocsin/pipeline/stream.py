"""The one streaming query that feeds every continuous channel.

Spark keeps the offsets (checkpoint); a batch that is repeated after a crash carries the same run
name, so the store skips what it already has. Which datasets are read is told to the source through
a small file, because the set changes while the query runs.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.model import Channel, Dataset
from tocsin.pipeline.local import localised
from tocsin.pipeline.log_source import NAME, ends_of, register_log_source
from tocsin.pipeline.records import POSITION, parse
from tocsin.pipeline.runner import Runner, Window
from tocsin.pipeline.snapshot import Snapshot, Snapshots
from tocsin.storage.log import Cut, PublicationLog
from tocsin.storage.store import Store

log = structlog.get_logger()

CONCURRENT_RUNS = 4


class NewRecords:
    """The records of one micro-batch, dataset by dataset. What several channels read is parsed
    once and kept on the driver (a batch has at most batch_bytes); for one that is not worth it."""

    def __init__(
        self, batch: DataFrame, channels: Sequence[Channel], dataset: Callable[[str], Dataset]
    ) -> None:
        self._batch = batch
        self._readers = Tally(name for channel in channels for name in channel.new)
        self._dataset = dataset
        self._lock = threading.Lock()
        self._shared: dict[str, DataFrame] = {}

    def present(self) -> set[str]:
        """Datasets with records here; only worth a job when there could be several."""
        if len(self._readers) < 2:
            return set(self._readers)
        return {row["dataset"] for row in self._batch.select("dataset").distinct().collect()}

    def of(self, name: str, start: int) -> DataFrame:
        """The records of a dataset at or after a position."""
        return self._records(name).where(F.col(POSITION) >= start)

    def _records(self, name: str) -> DataFrame:
        lines = self._batch.where(F.col("dataset") == name)
        if self._readers[name] < 2:
            return parse(lines, self._dataset(name))
        with self._lock:
            if name not in self._shared:
                self._shared[name] = localised(parse(lines, self._dataset(name)))
            return self._shared[name]


class ContinuousStream:
    """Runs all continuous channels over each micro-batch of new records."""

    def __init__(
        self,
        spark: SparkSession,
        runner: Runner,
        snapshots: Snapshots,
        store: Store,
        publication_log: PublicationLog,
        directory: Path,
        *,
        batch_bytes: int,
    ) -> None:
        self._spark = spark
        self._runner = runner
        self._snapshots = snapshots
        self._store = store
        self._log = publication_log
        self._directory = directory
        self._batch_bytes = batch_bytes
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(CONCURRENT_RUNS, thread_name_prefix="continuous")
        self._query: StreamingQuery | None = None
        self._previous_us = time.time_ns() // 1000
        directory.mkdir(parents=True, exist_ok=True)
        self._id = self._stream_id()

    def watch(self, channel: Channel) -> None:
        """Feed `channel` with what its NEW datasets have received since it was created."""
        with self._lock:
            self._channels[channel.name] = channel
            self._tell_source()
            if self._query is None:
                self._query = self._start()

    def unwatch(self, name: str) -> None:
        with self._lock:
            if self._channels.pop(name, None) is not None:
                self._tell_source()

    def restart_if_failed(self) -> None:
        """A streaming query that died is reported and started again from its checkpoint."""
        with self._lock:
            query = self._query
            if query is None or query.isActive:
                return
            log.error("the stream stopped and is started again", reason=str(query.exception()))
            self._query = self._start()

    def passed(self) -> dict[str, int]:
        """For each dataset that the stream reads, the end below which it needs nothing again."""
        with self._lock:
            needed = self._interest()
            query = self._query
        progress = query.lastProgress if query is not None else None
        if progress is not None:
            offset = ends_of(msgspec.json.decode(progress.sources[0].endOffset or "{}"))
            needed |= {
                name: max(end, needed[name]) for name, end in offset.items() if name in needed
            }
        return needed

    def stop(self) -> None:
        with self._lock:
            if self._query is not None:
                self._query.stop()
                self._query = None
        self._pool.shutdown(wait=True)

    def _start(self) -> StreamingQuery:
        register_log_source(self._spark)
        lines = (
            self._spark.readStream.format(NAME)
            .option("log", self._log.address)
            .option("interest", str(self._interest_file))
            .option("batch_bytes", str(self._batch_bytes))
            .load()
        )
        return (
            lines.writeStream.queryName("continuous")
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .foreachBatch(self._on_batch)
            .start()
        )

    def _on_batch(self, batch: DataFrame, number: int) -> None:
        with self._lock:
            channels = list(self._channels.values())
        new = NewRecords(batch, channels, self._store.catalog.dataset)
        present = new.present()
        cut = Cut(time.time_ns() // 1000, self._log.ends())
        window = Window(self._previous_us, cut.at_us, cut.ends)
        self._previous_us = cut.at_us
        snapshot = self._snapshots.at(cut)
        running = [
            self._pool.submit(self._run, channel, new, f"{self._id}-{number}", window, snapshot)
            for channel in channels
            if present.intersection(channel.new)
        ]
        for future in running:
            future.result()

    def _run(
        self, channel: Channel, new: NewRecords, run: str, window: Window, snapshot: Snapshot
    ) -> None:
        def records(name: str) -> DataFrame:
            return new.of(name, channel.starts.get(name, 0))

        while not self._runner.run(channel.name, run, window, snapshot, records):
            log.warning("the run is tried again", channel=channel.name, run=run)

    def _interest(self) -> dict[str, int]:
        starts: dict[str, int] = {}
        for channel in self._channels.values():
            for name in channel.new:
                own = channel.starts.get(name, 0)
                starts[name] = min(starts.get(name, own), own)
        return starts

    def _tell_source(self) -> None:
        temporary = self._interest_file.with_suffix(".writing")
        temporary.write_bytes(msgspec.json.encode(self._interest()))
        os.replace(temporary, self._interest_file)

    @property
    def _interest_file(self) -> Path:
        return self._directory / "interest.json"

    def _stream_id(self) -> str:
        """Batch numbers start again at 0 with a new checkpoint, so they are qualified by this."""
        file = self._directory / "id"
        if not file.exists():
            file.write_text(uuid.uuid4().hex[:12])
        return file.read_text().strip()
