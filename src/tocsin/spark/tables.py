"""Stored datasets: Parquet up to a position, the publication log's tail from there.

A read takes the manifest once and builds on that snapshot, so that a flush or a compaction that
commits meanwhile changes nothing for it. Files that a manifest no longer names, and log segments
that have become Parquet, stay for `grace_s`: longer than any query that still reads them may run.

Knows the manifest only as a protocol, and neither catalog nor channels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin import durable
from tocsin.model import Dataset
from tocsin.protocol.columns import POSITION
from tocsin.protocol.log_line import taken_us
from tocsin.spark.growth import Growth
from tocsin.spark.local import SMALL_BYTES, Projected, joined_rows, text_rows
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
from tocsin.spark.table_files import FULL_BYTES, Manifest, choose_run, delete, strays, write_file
from tocsin.storage.flushed import Flushes, stored_end, window_end
from tocsin.storage.log import Reader
from tocsin.storage.store.data_file import DataFile

__all__ = ["Manifest", "Tables", "parse"]

SMALL_TAIL_BYTES = SMALL_BYTES  # less than this is read faster than Spark plans to read it
FLUSH_BYTES = 256 * 1024 * 1024  # log bytes that become one Parquet file at most
_EVER = 1e15  # seconds; a finite "after everything", since not every database has an infinite one


class TableLimits(Struct, frozen=True):
    compact_files: int = 8  # so many files of a dataset are merged
    small_tail_bytes: int = SMALL_TAIL_BYTES  # of the log; a smaller tail is read by the driver
    grace_s: float = 600.0  # a replaced file is kept so long, for whoever still reads it


class Tables:
    def __init__(
        self,
        spark: SparkSession,
        log: Reader,
        directory: Path,
        manifest: Manifest,
        limits: TableLimits | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._spark = spark
        self._log = log
        self._directory = directory
        self._manifest = manifest
        self._limits = limits or TableLimits()
        self._clock = clock
        self._maintenance = Lock()  # one flush, compaction or sweep at a time
        self._parquet: dict[tuple[str, str], tuple[tuple[str, ...], DataFrame]] = {}
        self._parsers: dict[tuple[str, str], Projected] = {}
        self._growths: dict[tuple[str, str], Growth] = {}
        self._flushes = Flushes(clock, self._limits.grace_s)
        durable.make_directory(directory)

    def stored(self, dataset: Dataset, end: int, as_of_us: int | None = None) -> DataFrame:
        """The dataset as of a position: each record below `end` once, newest per primary key.

        RETAIN counts back from `as_of_us`; without it, it is not applied.
        """
        records = self._records(dataset, self._manifest.files(dataset.name), None, end)
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
        return self._records(dataset, self._manifest.files(dataset.name), start, end)

    def size_bytes(self, dataset: Dataset, start: int, end: int) -> int:
        """About how many bytes a read of [start, end) touches: whole files, and the log's tail."""
        files = self._manifest.files(dataset.name)
        read = [file for file in files if file.first_position < end and file.end_position > start]
        tail_start = max(start, stored_end(self._log, dataset.name, files))
        return sum(file.size_bytes for file in read) + self._log.size_bytes(tail_start, end)

    def stored_end(self, dataset: Dataset) -> int:
        """Records below this position are Parquet, the others are in the log."""
        return stored_end(self._log, dataset.name, self._manifest.files(dataset.name))

    def bound(self, dataset: Dataset, start: int, end: int, most_bytes: int) -> int:
        """Where a window from `start` ends that has about so many bytes; at most `end`, and behind
        one record at least."""
        stored = partial(self.stored_end, dataset)
        return window_end(self._log, dataset.name, start, end, most_bytes, stored)

    def count(self, dataset: Dataset, start: int, end: int) -> int:
        """About how many records lie in [start, end): those of whole files and of a short tail are
        counted, others are estimated by size."""
        files = self._manifest.files(dataset.name)
        count = 0
        for file in files:
            share = min(file.end_position, end) - max(file.first_position, start)
            if share > 0:
                count += round(file.rows * share / (file.end_position - file.first_position))
        tail_start = max(start, stored_end(self._log, dataset.name, files))
        return count + (self._log.count(dataset.name, tail_start, end) if tail_start < end else 0)

    def received_us(self, dataset: Dataset, start: int, end: int) -> int | None:
        """When the first record of [start, end) was received, or the last of its file."""
        if start >= end:
            return None
        for file in self._manifest.files(dataset.name):
            if file.first_position <= start < file.end_position:
                return file.max_received_us
        for _, body in self._log.lines(dataset.name, start, end, 1):
            return taken_us(body)
        return None

    def flush(self, dataset: Dataset, end: int) -> int:
        """Turn the log up to `end` into Parquet; returns how many files that gave.

        Each file is committed on its own. A crash leaves the log to be flushed again, and at most
        a file that no manifest names.
        """
        count = 0
        with self._maintenance:
            start = self.stored_end(dataset)
            for first, upto in self._log.pieces(dataset.name, start, end, FLUSH_BYTES):
                tail = self._tail(dataset, first, upto)
                added = self._write(tail, dataset, first, upto)
                self._flushes.note(dataset.name, first)
                self._manifest.replace(dataset.name, [], [added])
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
            files = self._manifest.files(dataset.name)
            # A run that is repeated after a restart looks back from its own, earlier moment.
            as_of_us = round((self._clock() - self._limits.grace_s) * 1e6)
            oldest_us = oldest_kept_us(dataset, as_of_us)
            reached = [file for file in files if horizon is None or file.end_position <= horizon]
            # The last file stays, however old: its end says where the log's part begins.
            expired = [
                file
                for file in reached
                if file != files[-1] and oldest_us and file.max_received_us <= oldest_us
            ]
            reached = [file for file in reached if file not in expired]
            full_bytes = None if _merges_keys(dataset) else FULL_BYTES
            run = choose_run(reached, self._limits.compact_files, full_bytes=full_bytes)
            if not run and not expired:
                return False
            added = [self._merge(dataset, run, oldest_us)] if run else []
            gone = [file.path for file in (*expired, *run)]
            self._manifest.replace(dataset.name, gone, added)
        return True

    def drop(self, dataset: Dataset) -> None:
        """Let go of all files; `sweep` deletes them after the grace period."""
        with self._maintenance:
            paths = [file.path for file in self._manifest.files(dataset.name)]
            if paths:
                self._manifest.replace(dataset.name, paths, [])
            self._flushes.forget(dataset.name)
            for key in [key for key in self._parquet if key[0] == dataset.name]:
                self._parquet.pop(key, None)
            for key in [key for key in self._parsers if key[0] == dataset.name]:
                self._parsers.pop(key, None)
                self._growths.pop(key, None)

    def sweep(self, grace_s: float | None = None) -> int:
        """Delete what was retired a grace period ago and what a crash left; returns how many."""
        before = self._clock() - (self._limits.grace_s if grace_s is None else grace_s)
        count = 0
        with self._maintenance:
            for dataset, path in self._manifest.retired(before):
                delete(self._directory / path)
                self._manifest.forget(dataset, path)
                count += 1
            known = {path for _, path in self._manifest.retired(_EVER)}
            for folder in self._directory.iterdir():
                known |= {file.path for file in self._manifest.files(folder.name)}
            for stray in list(strays(self._directory, self._manifest.owner, known, before)):
                delete(stray)
                count += 1
        return count

    def _records(
        self, dataset: Dataset, files: tuple[DataFile, ...], start: int | None, end: int
    ) -> DataFrame:
        """The records in [start, end) by one snapshot of the manifest; no start: from the first."""
        tail_start = stored_end(self._log, dataset.name, files)
        below, parts = -1 if start is None else start, []
        wanted = [f for f in files if f.first_position < end and f.end_position > below]
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
        schema = schema_of(dataset)
        known = self._parquet.get((dataset.name, schema))
        if known is not None and known[0] == paths:
            return known[1]
        whole = [str(self._directory / path) for path in paths]
        records = self._spark.read.schema(schema).parquet(*whole)
        self._parquet[dataset.name, schema] = (paths, records)
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

    def _merge(self, dataset: Dataset, run: Sequence[DataFile], oldest_us: int | None) -> DataFile:
        whole = [str(self._directory / file.path) for file in run]
        records = self._spark.read.schema(schema_of(dataset)).parquet(*whole)
        if oldest_us is not None:
            records = records.transform(keep_retained, oldest_us)
        if _merges_keys(dataset):
            records = records.transform(keep_newest, dataset)
        first, end = run[0].first_position, run[-1].end_position
        return self._write(records, dataset, first, end)

    def _write(self, records: DataFrame, dataset: Dataset, first: int, end: int) -> DataFile:
        return write_file(
            records, self._directory, dataset.name, first, end, owner=self._manifest.owner
        )


def _merges_keys(dataset: Dataset) -> bool:
    return bool(dataset.primary_key) and not dataset.routed


def _as_stored(records: DataFrame, dataset: Dataset, as_of_us: int | None) -> DataFrame:
    oldest_us = None if as_of_us is None else oldest_kept_us(dataset, as_of_us)
    if oldest_us is not None:
        records = records.transform(keep_retained, oldest_us)
    return records.transform(keep_newest, dataset)
