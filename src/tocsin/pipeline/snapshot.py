"""All datasets as of one cut of the log, for the channels that run on it together.

What several channels read is made once; what is small is kept on the driver.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct
from pyspark.sql import DataFrame

from tocsin.model import Dataset
from tocsin.pipeline.local import SMALL_BYTES, localised
from tocsin.pipeline.tables import Tables
from tocsin.storage.log import Cut


class _Stored(Struct):
    """A dataset kept on the driver, as of an end."""

    created_at: float
    end: int
    at_us: int
    frame: DataFrame


class Snapshots:
    """Makes snapshots. A small dataset is kept and moved on by what came since, not read again."""

    def __init__(self, tables: Tables, dataset: Callable[[str], Dataset]) -> None:
        self._tables = tables
        self._dataset = dataset
        self._lock = threading.Lock()
        self._stored: dict[str, _Stored] = {}
        self._making: dict[str, threading.Lock] = {}
        self._newest: Snapshot | None = None

    def at(self, cut: Cut) -> Snapshot:
        return Snapshot(self, cut)

    def recent(self, since_us: int, cut: Callable[[], Cut]) -> Snapshot:
        """A snapshot for a channel whose last one was of `since_us`: the newest, if it is less than
        half as old as that, so that channels which run at about the same time share what they
        read; a new one otherwise."""
        with self._lock:
            now_us = time.time_ns() // 1000
            newest = self._newest
            if newest is None or 2 * newest.cut.at_us < now_us + since_us:
                newest = self._newest = self.at(cut())
            return newest

    def forget(self, name: str) -> None:
        with self._making_of(name):
            self._stored.pop(name, None)

    def stored(self, name: str, cut: Cut) -> DataFrame:
        dataset, end = self._dataset(name), cut.ends.get(name, 0)
        if self._tables.size_bytes(dataset, 0, end) > SMALL_BYTES:
            self.forget(name)
            return self._tables.stored(dataset, end, cut.at_us)
        with self._making_of(name):
            known = self._stored.get(name)
            if known is None or known.created_at != dataset.created_at or known.end > end:
                frame = localised(self._tables.stored(dataset, end, cut.at_us))
                if known is not None and known.end > end:
                    return frame  # somebody is ahead of us; theirs is worth more
            elif known.end == end and (dataset.retain_s is None or known.at_us >= cut.at_us):
                return known.frame
            else:
                grown = self._tables.grown(known.frame, dataset, known.end, end, cut.at_us)
                frame = localised(grown)
            self._stored[name] = _Stored(dataset.created_at, end, cut.at_us, frame)
            return frame

    def window(self, name: str, start: int, cut: Cut) -> DataFrame:
        dataset, end = self._dataset(name), cut.ends.get(name, 0)
        frame = self._tables.window(dataset, start, end)
        small = self._tables.size_bytes(dataset, start, end) <= SMALL_BYTES
        return localised(frame) if small else frame

    def _making_of(self, name: str) -> threading.Lock:
        """Two channels that want the same view wait for one making of it."""
        with self._lock:
            return self._making.setdefault(name, threading.Lock())


class Snapshot:
    """The datasets as of one cut. Thread-safe."""

    def __init__(self, snapshots: Snapshots, cut: Cut) -> None:
        self.cut = cut
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, int], DataFrame] = {}

    def stored(self, name: str) -> DataFrame:
        """The dataset with every record below the cut."""
        return self._snapshots.stored(name, self.cut)

    def window(self, name: str, start: int) -> DataFrame:
        """The records of the dataset from a position up to the cut."""
        with self._lock:
            if (name, start) not in self._windows:
                self._windows[name, start] = self._snapshots.window(name, start, self.cut)
            return self._windows[name, start]
