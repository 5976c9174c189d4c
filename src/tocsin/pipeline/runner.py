"""One run of one channel: views in, matched results committed, failures contained.

Continuous and repetitive channels differ only in what their NEW datasets are; both end here. A run
that fails or takes too long is reported on its channel and harms no other.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import Counter, Histogram
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InvalidInput, NotFound, TooLarge, Unavailable
from tocsin.language import CreateChannel
from tocsin.model import Channel, Dataset
from tocsin.pipeline.channels import (
    CompiledChannel,
    Mask,
    Parameters,
    ParameterTable,
    analyse,
    check_open,
    compile_channel,
    match,
    with_attachments,
)
from tocsin.pipeline.snapshot import Snapshot
from tocsin.storage.runs import Committed, Run
from tocsin.storage.store import Store

log = structlog.get_logger()

RUN_TIME = Histogram("tocsin_run_seconds", "Time of a channel's run", ["channel"])
RESULTS = Counter("tocsin_results_total", "Results stored", ["channel"])
FAILURES = Counter("tocsin_run_failures_total", "Runs that failed", ["channel"])

PHASE_TIME = Histogram("tocsin_run_phase_seconds", "Time of a run's phases", ["phase"])

ATTEMPTS = 3


class Window(Struct, frozen=True):
    """What a run looks at: records below `ends`, stamped in (start, end]."""

    start_us: int
    end_us: int
    ends: dict[str, int]

    def times(self) -> tuple[dt.datetime, dt.datetime]:
        return _time(self.start_us), _time(self.end_us)


@dataclass
class _Prepared:
    channel: Channel
    compiled: CompiledChannel
    parameters: ParameterTable
    checked: set[Mask] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0


class Runner:
    """Knows how to run every channel that was prepared."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        *,
        limit_s: float,
        on_commit: Callable[[Channel, Committed], None],
    ) -> None:
        self._spark = spark
        self._store = store
        self._limit_s = limit_s
        self._on_commit = on_commit
        self._prepared: dict[str, _Prepared] = {}

    def compile(
        self, asked: CreateChannel | Channel, datasets: Mapping[str, Dataset]
    ) -> CompiledChannel:
        """Compile and let Spark analyse and plan it; a StatementError says what is wrong."""
        compiled = compile_channel(asked, datasets)
        columns = analyse(self._spark, compiled, datasets)
        return with_attachments(compiled, columns, datasets)

    def prepare(self, channel: Channel, compiled: CompiledChannel) -> None:
        table = ParameterTable(self._spark, compiled)
        self._prepared[channel.name] = _Prepared(channel, compiled, table)

    def check_open(self, name: str, mask: Mask) -> None:
        """Refuse open parameters with which Spark cannot run the channel."""
        prepared = self._prepared.get(name)
        if prepared is not None and mask not in prepared.checked:
            check_open(self._spark, prepared.compiled, mask)
            prepared.checked.add(mask)

    def forget(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            prepared.parameters.close()

    def describe(self, name: str) -> list[tuple[str, str]]:
        prepared = self._prepared.get(name)
        if prepared is None:
            return [("state", "it cannot run; the cluster's log says why")]
        return prepared.compiled.describe(prepared.parameters.masks())

    def run(
        self,
        name: str,
        run: str,
        window: Window,
        snapshot: Snapshot,
        new: Callable[[str], DataFrame],
        *,
        nothing_new: bool = False,
    ) -> bool:
        """Match, store and tell. False: it failed, was reported, and may be tried again.

        `new` gives the records of a NEW dataset; `nothing_new`: one of them has none,
        so that many queries need not be asked at all.
        """
        prepared = self._prepared.get(name)
        if prepared is None:  # dropped since it was chosen
            return True
        started_at = time.time()
        error: str | None = None
        rows: list[tuple[int, bytes]] = []
        orders: list[int] = []
        with prepared.lock:
            try:
                if not (nothing_new and prepared.compiled.needs_new_records):
                    rows, orders = self._match(prepared, run, window, snapshot, new)
            except Unavailable:  # the store is away, which is no fault of the channel's
                raise
            except Exception as failure:
                error = _reason(failure)
                prepared.failures += 1
                FAILURES.labels(name).inc()
                log.error("a run failed", channel=name, run=run, reason=error)
                if prepared.failures < ATTEMPTS:
                    return False
            prepared.failures = 0
        if not rows and error is None and prepared.channel.kind == "continuous":
            return True  # the stream's own offsets say that it was done
        record = Run(
            channel=name,
            run=run,
            started_at=started_at,
            ended_at=time.time(),
            window_start_us=window.start_us,
            window_end_us=window.end_us,
            ends=window.ends,
            rows=len(rows),
            error=error,
        )
        try:
            with _phase("commit"):
                records = orders if prepared.compiled.by_record else None
                committed = self._store.runs.commit_run(record, rows, records)
        except NotFound:  # the channel was dropped meanwhile
            return True
        except (InvalidInput, TooLarge) as refusal:  # else it would be tried for ever
            FAILURES.labels(name).inc()
            log.error("results cannot be stored", channel=name, run=run, reason=str(refusal))
            record = msgspec.structs.replace(record, rows=0, error=str(refusal))
            committed = self._store.runs.commit_run(record, [])
        RUN_TIME.labels(name).observe(record.ended_at - started_at)
        if committed is not None and committed.count:
            RESULTS.labels(name).inc(committed.count)
            self._on_commit(prepared.channel, committed)
        return True

    def _match(
        self,
        prepared: _Prepared,
        run: str,
        window: Window,
        snapshot: Snapshot,
        new: Callable[[str], DataFrame],
    ) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Results in the order to store them, and the number that each was ordered by."""
        channel, compiled = prepared.channel, prepared.compiled
        with _phase("parameters"):
            parameters = self._refreshed(prepared)
        if parameters is None:
            return [], []
        group = f"{channel.name}/{run}"
        context = self._spark.sparkContext
        timer = threading.Timer(self._limit_s, context.cancelJobGroup, [group])
        timer.daemon = True
        context.setJobGroup(group, f"channel {channel.name}", interruptOnCancel=True)
        timer.start()
        try:
            with _phase("views"):
                stored = {name: snapshot.stored(name) for name in compiled.stored}
                fresh = {name: new(name) for name in compiled.new}
            with _phase("plan"):
                matched = match(self._spark, compiled, parameters, stored, fresh, window.times())
            with _phase("execute"):
                found = matched.toArrow()
        finally:
            timer.cancel()
        found = found.sort_by(
            [("__backend", "ascending"), ("__order", "ascending"), ("payload", "ascending")]
        )
        payloads = found.column("payload").to_pylist()
        backends = found.column("__backend").to_pylist()
        rows = [(b, p.encode()) for b, p in zip(backends, payloads, strict=True)]
        return rows, found.column("__order").to_pylist()

    def _refreshed(self, prepared: _Prepared) -> Parameters | None:
        """The parameter sets as of now, by what changed if that is known; None: nobody asks."""
        subscriptions, name = self._store.subscriptions, prepared.channel.name
        table = prepared.parameters
        changes = subscriptions.parameter_changes(name, table.version)
        if changes is None:
            version = subscriptions.parameter_version(name)
            table.replace(version, subscriptions.parameter_sets(name))
        else:
            table.update(*changes)
        return table.current()


def _phase(name: str) -> AbstractContextManager[object]:
    return PHASE_TIME.labels(name).time()


def _time(stamp_us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(stamp_us // 1_000_000, dt.UTC) + dt.timedelta(
        microseconds=stamp_us % 1_000_000
    )


def _reason(failure: Exception) -> str:
    """One line of why, from Spark's many."""
    if isinstance(failure, PySparkException):
        text = failure.getMessage() or str(failure)
    else:
        text = str(failure) or type(failure).__name__
    if "cancelled" in text.lower():
        return "stopped: it took longer than run_limit_s"
    return text.strip().splitlines()[0][:500]
