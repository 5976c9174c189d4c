"""All datasets as of one cut of the log, for the channels that run on it together.

What several channels read is made once; what is small is kept on the driver. While a snapshot is
in use its cut is pinned: compaction keeps every version of a row that the cut still shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct
from pyspark.sql import DataFrame

from tocsin.model import Dataset
from tocsin.spark.local import SMALL_BYTES, localised
from tocsin.spark.pins import Pinned, Pins
from tocsin.spark.tables import Tables
from tocsin.storage.log import Cut


class _Stored(Struct):
    """A dataset kept on the driver, as of an end."""

    created_at: float
    end: int
    at_us: int
    frame: DataFrame


class Snapshots(Pins["Snapshot"]):
    """Makes snapshots. A small dataset is kept and moved on by what came since, not read again."""

    def __init__(self, tables: Tables, dataset: Callable[[str], Dataset]) -> None:
        super().__init__()
        self.tables = tables
        self.dataset = dataset
        self._stored: dict[str, _Stored] = {}
        self._making: dict[str, threading.Lock] = {}

    def forget(self, name: str) -> None:
        with self._making_of(name):
            self._stored.pop(name, None)

    def stored(self, name: str, cut: Cut) -> DataFrame:
        dataset, end = self.dataset(name), cut.ends.get(name, 0)
        if self.tables.size_bytes(dataset, 0, end) > SMALL_BYTES:
            self.forget(name)
            return self.tables.stored(dataset, end, cut.at_us)
        with self._making_of(name):
            known = self._stored.get(name)
            if known is None or known.created_at != dataset.created_at or known.end > end:
                frame = localised(self.tables.stored(dataset, end, cut.at_us))
                if known is not None and known.end > end:
                    return frame  # somebody is ahead of us; theirs is worth more
            elif known.end == end and (dataset.retain_s is None or known.at_us >= cut.at_us):
                return known.frame
            else:
                grown = self.tables.grown(known.frame, dataset, known.end, end, cut.at_us)
                frame = localised(grown)
            self._stored[name] = _Stored(dataset.created_at, end, cut.at_us, frame)
            return frame

    def window(self, name: str, start: int, end: int) -> DataFrame:
        dataset = self.dataset(name)
        frame = self.tables.window(dataset, start, end)
        small = self.tables.size_bytes(dataset, start, end) <= SMALL_BYTES
        return localised(frame) if small else frame

    def _of(self, cut: Cut) -> Snapshot:
        return Snapshot(self, cut)

    def _making_of(self, name: str) -> threading.Lock:
        """Two channels that want the same view wait for one making of it."""
        with self._lock:
            return self._making.setdefault(name, threading.Lock())


class Snapshot(Pinned):
    """The datasets as of one cut, which is pinned for as long as somebody holds this. Thread-safe.
    Made by `Snapshots`."""

    def __init__(self, snapshots: Snapshots, cut: Cut) -> None:
        super().__init__(cut)
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, int, int], DataFrame] = {}

    def stored(self, name: str) -> DataFrame:
        """The dataset with every record below the cut."""
        return self._snapshots.stored(name, self.cut)

    def window(self, name: str, start: int, end: int | None = None) -> DataFrame:
        """The records of the dataset from a position up to another, or to the cut."""
        upto = self.cut.ends.get(name, 0) if end is None else end
        with self._lock:
            if (name, start, upto) not in self._windows:
                self._windows[name, start, upto] = self._snapshots.window(name, start, upto)
            return self._windows[name, start, upto]
