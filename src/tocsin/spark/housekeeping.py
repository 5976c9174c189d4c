"""In the background: the log's tail becomes Parquet, small files are merged, and what nobody needs
any more is deleted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from tocsin.clock import Clock
from tocsin.errors import Damaged, Unavailable
from tocsin.model import Dataset
from tocsin.settings import Settings
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store

log = structlog.get_logger()

RETENTION_INTERVAL_S = 60.0


class StoredDatasets(Protocol):
    def stored_end(self, dataset: Dataset) -> int: ...

    def flush(self, dataset: Dataset, end: int) -> int: ...

    def compact(self, dataset: Dataset, horizon: int | None = None) -> bool: ...

    def retire_below(self, dataset: Dataset, bound: int) -> int: ...

    def sweep(self, *, pinned_us: int | None = None) -> int: ...


class PinnedCuts(Protocol):
    @property
    def tables(self) -> StoredDatasets: ...

    def horizon(self, name: str) -> int | None:
        """The lowest end at which somebody looks at the dataset; None: nobody does."""

    def oldest_us(self) -> int | None:
        """When the oldest cut was taken at which somebody looks; None: nobody does."""


class Housekeeping:
    """A thread. `passed` returns, for datasets that Spark's own queries read, up to where they
    have; `is_over`, whether Spark has ended."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        publication_log: PublicationLog,
        snapshots: PinnedCuts,
        runner: ChannelRuns,
        passed: Callable[[], dict[str, int]],
        is_over: Callable[[], bool],
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._settings = settings
        self._store = store
        self._log = publication_log
        self._tables = snapshots.tables
        self._snapshots = snapshots
        self._runner = runner
        self._passed = passed
        self._is_over = is_over
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, wait: bool) -> None:
        self._stopping.set()
        if wait and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        expired_at = -math.inf
        while not self._stopping.wait(self._settings.flush_interval_s) and not self._is_over():
            try:
                self.tidy()
                if time.monotonic() - expired_at > RETENTION_INTERVAL_S:
                    expired_at = time.monotonic()
                    self._expire()
            except Exception as error:  # a full disk, say: the next round may find more room
                self._report(error)

    def _expire(self) -> None:
        """By the time that is known to have passed, which the next cluster is told."""
        self._store.put_clock_mark(self._clock.mark())
        now = self._clock.trusted()
        self._store.results.expire(now - self._settings.result_retention_s, now)
        self._tables.sweep(pinned_us=self._snapshots.oldest_us())

    def tidy(self) -> None:
        """One round over all datasets."""
        passed = self._passed()
        for dataset in self._store.catalog.datasets():
            try:
                self._tidy(dataset, passed)
            except Exception as error:  # one dataset's trouble is not the others'
                self._report(error, dataset=dataset.name)

    def _report(self, error: Exception, **where: str) -> None:
        if self._stopping.is_set() or self._is_over():
            return
        if isinstance(error, Unavailable | Damaged):
            log.warning("housekeeping failed", reason=str(error), **where)
        else:
            log.exception("housekeeping failed", **where)

    def _tidy(self, dataset: Dataset, passed: dict[str, int]) -> None:
        name = dataset.name
        end = self._log.ends().get(name, 0)
        if end > self._tables.stored_end(dataset):
            self._log.roll(name)
            self._tables.flush(dataset, end)
        self._tables.compact(dataset, horizon=self._horizon(name))
        self._log.retire(name, self._tables.retire_below(dataset, passed.get(name, end)))

    def _horizon(self, dataset: str) -> int | None:
        """The lowest position that somebody looks from, or as of which somebody looks at it."""
        bounds = [
            self._runner.progress(channel).ends.get(dataset, 0)
            for channel in self._store.catalog.channels()
            if dataset in channel.new
        ]
        pinned = self._snapshots.horizon(dataset)
        return min([*bounds, *([] if pinned is None else [pinned])], default=None)
