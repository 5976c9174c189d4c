"""Stored datasets: in files of a medium up to a position, the publication log's tail from there.

A read asks the medium once for what is stored and builds on that, so that a flush or a compaction
that commits meanwhile changes nothing for it. Files that are no longer part of a dataset, and log
segments that have become files, stay for `grace_s`: longer than any query that still reads them may
run.

Knows no medium in particular, and neither catalog nor channels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Dataset
from tocsin.protocol.columns import POSITION
from tocsin.protocol.log_line import taken_us
from tocsin.spark.growth import Growth
from tocsin.spark.local import Projected, joined_rows, text_rows
from tocsin.spark.log_lines import log_lines
from tocsin.spark.records import (
    LINE,
    keep_newest,
    keep_retained,
    oldest_kept_us,
    parse,
    schema_of,
)
from tocsin.spark.standing import NotStanding
from tocsin.spark.tables.compaction import plan
from tocsin.spark.tables.limits import TableLimits
from tocsin.spark.tables.port import Medium
from tocsin.storage.flushed import Flushes, stored_end, window_end
from tocsin.storage.log import Reader
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import Stored


class Tables:
    def __init__(
        self,
        spark: SparkSession,
        log: Reader,
        medium: Medium,
        limits: TableLimits | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spark = spark
        self._log = log
        self._medium = medium
        self._limits = limits or TableLimits()
        self._clock = clock
        self._maintenance = Lock()  # one flush, compaction or sweep at a time
        self._frames: dict[tuple[str, str], tuple[tuple[str, ...], DataFrame]] = {}
        self._parsers: dict[tuple[str, str], Projected] = {}
        self._growths: dict[tuple[str, str], Growth] = {}
        self._flushes = Flushes(clock, self._limits.grace_s)

    def stored(self, dataset: Dataset, end: int, as_of_us: int | None = None) -> DataFrame:
        """The dataset as of a position: each record below `end` once, newest per primary key.

        RETAIN counts back from `as_of_us`; without it, it is not applied.
        """
        records = self._records(dataset, self._medium.stored(dataset), None, end)
        return _as_stored(records, dataset, as_of_us)

    def grown(
        self, stored: DataFrame, dataset: Dataset, start: int, end: int, as_of_us: int | None = None
    ) -> DataFrame:
        """What `stored` gave as of `start`, moved on to `end` by the records between."""
        window = self.window(dataset, start, end)
        if dataset.retain_s is None and dataset.primary_key:
            with suppress(NotStanding):
                return self._growth(dataset, window).of(stored, window)
        elif dataset.retain_s is None:
            joined = joined_rows(stored, window)
            if joined is not None:
                return joined
        return _as_stored(stored.unionByName(window), dataset, as_of_us)

    def window(self, dataset: Dataset, start: int, end: int) -> DataFrame:
        """The records in [start, end), all of them: a primary key hides nothing here."""
        return self._records(dataset, self._medium.stored(dataset), start, end)

    def size_bytes(self, dataset: Dataset, start: int, end: int) -> int:
        """About how many bytes a read of [start, end) touches: whole files, and the log's tail."""
        stored = self._medium.stored(dataset)
        read = _within(stored.files, start, end)
        tail_start = max(start, stored_end(self._log, dataset.name, stored.end))
        return sum(file.size_bytes for file in read) + self._log.size_bytes(tail_start, end)

    def stored_end(self, dataset: Dataset) -> int:
        """Records below this position are in files, the others are in the log."""
        return stored_end(self._log, dataset.name, self._medium.stored(dataset).end)

    def bound(self, dataset: Dataset, start: int, end: int, most_bytes: int) -> int:
        """Where a window from `start` ends that has about so many bytes; at most `end`, and behind
        one record at least."""
        stored = partial(self.stored_end, dataset)
        return window_end(self._log, dataset.name, start, end, most_bytes, stored)

    def count(self, dataset: Dataset, start: int, end: int) -> int:
        """About how many records lie in [start, end): those of whole files and of a short tail are
        counted, others are estimated by size."""
        stored = self._medium.stored(dataset)
        count = 0
        for file in stored.files:
            share = min(file.end_position, end) - max(file.first_position, start)
            if share > 0:
                count += round(file.rows * share / (file.end_position - file.first_position))
        tail_start = max(start, stored_end(self._log, dataset.name, stored.end))
        return count + (self._log.count(dataset.name, tail_start, end) if tail_start < end else 0)

    def received_us(self, dataset: Dataset, start: int, end: int) -> int | None:
        """When the first record of [start, end) was received, or the last of its file."""
        if start >= end:
            return None
        for file in self._medium.stored(dataset).files:
            if file.first_position <= start < file.end_position:
                return file.max_received_us
        for _, body in self._log.lines(dataset.name, start, end, 1):
            return taken_us(body)
        return None

    def flush(self, dataset: Dataset, end: int) -> int:
        """Turn the log up to `end` into files; returns how many times something was committed.

        A crash leaves the rest of the log to be flushed again, and at most a file that is part of
        no dataset.
        """
        count = 0
        with self._maintenance:
            stored = self._medium.stored(dataset, anew=True)
            start = stored_end(self._log, dataset.name, stored.end)
            for first, upto in self._log.pieces(dataset.name, start, end, self._limits.flush_bytes):
                try:
                    self._medium.append(dataset, self._tail(dataset, first, upto), first, upto)
                finally:  # it may have been committed even so
                    self._flushes.note(dataset.name, first)
                count += 1
        return count

    def retire_below(self, dataset: Dataset, bound: int) -> int:
        """Below which position the log may be retired, if its other readers are past `bound`.

        Records flushed within the grace period stay: a running query may have planned to read them
        from the log.
        """
        return self._flushes.kept_below(dataset.name, min(bound, self.stored_end(dataset)))

    def compact(self, dataset: Dataset, horizon: int | None = None) -> bool:
        """Merge small files and drop those wholly outside RETAIN; False if there was nothing to do.

        What a channel has yet to look at is not dropped, however old it is.
        With a primary key, merging keeps only the newest record per key, unless the dataset is
        routed: a subscriber who was away gets every record. Nobody may then ask for
        the dataset as of a position below the merged files' end, or for a window that starts
        there; `horizon` is the lowest position that somebody still may (none: all have moved on).
        """
        with self._maintenance:
            stored = self._medium.stored(dataset, anew=True)
            # A run that is repeated after a restart looks back from its own, earlier moment.
            as_of_us = round((self._clock() - self._limits.grace_s) * 1e6)
            oldest_us = oldest_kept_us(dataset, as_of_us)
            compaction = plan(dataset, stored.files, horizon, oldest_us, self._limits.compact_files)
            if not compaction:
                return False
            self._medium.compact(dataset, stored, compaction)
        return True

    def drop(self, dataset: Dataset) -> None:
        """Let go of all files; `sweep` deletes them after the grace period."""
        with self._maintenance:
            self._medium.drop(dataset)
            self._flushes.forget(dataset.name)
            for cache in (self._frames, self._parsers, self._growths):
                for key in [key for key in cache if key[0] == dataset.name]:
                    cache.pop(key, None)

    def sweep(self, grace_s: float | None = None, *, pinned_us: int | None = None) -> int:
        """Delete what was replaced a grace period ago, and before the oldest cut that is pinned was
        taken; and what a crash left. Returns how many files."""
        before = self._clock() - (self._limits.grace_s if grace_s is None else grace_s)
        if pinned_us is not None:
            before = min(before, pinned_us / 1e6)
        with self._maintenance:
            return self._medium.sweep(before)

    def _records(self, dataset: Dataset, stored: Stored, start: int | None, end: int) -> DataFrame:
        """The records in [start, end) by one look at the medium; no start: from the first."""
        tail_start = stored_end(self._log, dataset.name, stored.end)
        below, parts = -1 if start is None else start, []
        wanted = _within(stored.files, below, end)
        if wanted:
            records = self._read(dataset, wanted)
            if start is not None and wanted[0].first_position < start:
                records = records.where(F.col(POSITION) >= start)
            if max(file.end_position for file in wanted) > end:
                records = records.where(F.col(POSITION) < end)
            parts.append(records)
        tail_start = max(tail_start, below)
        if tail_start < end:
            parts.append(self._tail(dataset, tail_start, end))
        if not parts:
            return self._spark.sql("SELECT '' AS line WHERE false").transform(parse, dataset)
        return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

    def _read(self, dataset: Dataset, files: list[DataFile]) -> DataFrame:
        """The files as one DataFrame, kept until the dataset has others: planning it lists them."""
        paths = tuple(file.path for file in files)
        key = (dataset.name, schema_of(dataset))
        known = self._frames.get(key)
        if known is not None and known[0] == paths:
            return known[1]
        records = self._medium.frame(dataset, files)
        self._frames[key] = (paths, records)
        return records

    def _tail(self, dataset: Dataset, start: int, end: int) -> DataFrame:
        """The log's records in [start, end): few are read here and now, many by Spark's tasks."""
        if self._log.size_bytes(start, end) <= self._limits.small_tail_bytes:
            bodies = [body.decode() for _, body in self._log.lines(dataset.name, start, end)]
            return self._parsed(dataset, text_rows(self._spark, LINE, bodies))
        lines = log_lines(self._spark, self._log, dataset.name, start, end)
        return lines.transform(parse, dataset)

    def _parsed(self, dataset: Dataset, lines: DataFrame) -> DataFrame:
        """Lines on the driver, parsed there."""
        key = (dataset.name, schema_of(dataset))
        if key not in self._parsers:
            self._parsers[key] = Projected(self._spark, lines, lambda few: parse(few, dataset))
        return self._parsers[key].of(lines)

    def _growth(self, dataset: Dataset, like: DataFrame) -> Growth:
        key = (dataset.name, schema_of(dataset))
        if key not in self._growths:
            self._growths[key] = Growth(self._spark, dataset, like)
        return self._growths[key]


def _within(files: Sequence[DataFile], start: int, end: int) -> list[DataFile]:
    """Those with records of [start, end)."""
    return [file for file in files if file.first_position < end and file.end_position > start]


def _as_stored(records: DataFrame, dataset: Dataset, as_of_us: int | None) -> DataFrame:
    oldest_us = None if as_of_us is None else oldest_kept_us(dataset, as_of_us)
    if oldest_us is not None:
        records = records.transform(keep_retained, oldest_us)
    return records.transform(keep_newest, dataset)
