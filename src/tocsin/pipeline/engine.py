"""Spark at work: the stream of continuous channels, the schedule of repetitive ones, housekeeping.

The cluster's service talks to this object alone. It is started once, is thread-safe, and everything
it needs to go on after a kill lies in the log, the store and Spark's checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog
from prometheus_client import Counter

from tocsin.errors import SettingError, TocsinError, Unavailable
from tocsin.language import CreateChannel
from tocsin.model import Channel, Dataset, Mode
from tocsin.pipeline.adhoc import Answer, answer
from tocsin.pipeline.channels import CompiledChannel
from tocsin.pipeline.channels.openings import Mask, mask_of
from tocsin.pipeline.jdbc import jdbc_of
from tocsin.pipeline.real_time import RealTime
from tocsin.pipeline.repetition import Schedule
from tocsin.pipeline.runner import Runner, Window
from tocsin.pipeline.session import build_session, runs_in_real_time
from tocsin.pipeline.snapshot import Snapshots
from tocsin.pipeline.stream import ContinuousStream
from tocsin.pipeline.tables import Tables
from tocsin.pipeline.warm_up import warm_up
from tocsin.settings import Settings
from tocsin.storage.log import PublicationLog, open_reader
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.runs import Committed
from tocsin.storage.store import Store

log = structlog.get_logger()

OVERRUNS = Counter("tocsin_overruns_total", "Ticks of a channel that passed unused", ["channel"])

CONCURRENT_RUNS = 2
RETENTION_INTERVAL_S = 60.0
LONGEST_WAIT_S = 1.0


class Engine:
    """Owns the Spark session."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        publication_log: PublicationLog,
        on_commit: Callable[[Channel, Committed], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._log = publication_log
        self._spark = build_session(settings)
        data = Path(settings.data).absolute()
        self._tables = Tables(
            self._spark,
            open_reader(publication_log.address),
            data / "datasets",
            store.files,
            compact_files=settings.compact_files,
        )
        self._snapshots = Snapshots(self._tables, store.catalog.dataset)
        self._runner = Runner(
            self._spark,
            store,
            limit_s=settings.run_limit_s,
            on_commit=on_commit,
        )
        self._stream = ContinuousStream(
            self._spark,
            self._runner,
            self._snapshots,
            store,
            publication_log,
            data / "stream",
            batch_bytes=settings.batch_bytes,
        )
        self._real_time = self._in_real_time(data)
        self._schedule = Schedule()
        self._overruns: dict[str, int] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(CONCURRENT_RUNS, thread_name_prefix="repetitive")
        self._threads = [
            threading.Thread(target=self._repeat, name="schedule", daemon=True),
            threading.Thread(target=self._keep_house, name="housekeeping", daemon=True),
            threading.Thread(target=self._look_after, name="real-time", daemon=True),
        ]

    def _in_real_time(self, data: Path) -> RealTime | None:
        settings = self._settings
        jdbc = jdbc_of(settings.store)
        if jdbc is None or not runs_in_real_time(settings):
            return None
        return RealTime(
            self._spark,
            KafkaAddress.parse(settings.log),
            jdbc,
            self._store.catalog.dataset,
            self._open_in,
            lambda dataset: self._log.ends().get(dataset, 0),
            data / "real-time",
            batch_s=settings.real_time_batch_s,
            slots=settings.real_time_slots,
        )

    def _open_in(self, channel: str) -> set[Mask]:
        return {mask_of(each) for each in self._store.subscriptions.open_sets(channel)}

    def start(self) -> None:
        """Take up every channel of the catalog where it was left."""
        for channel in self._store.catalog.channels():
            try:
                self._activate(channel, self.check(channel))
            except TocsinError as error:  # the others go on
                log.error("a channel cannot run", channel=channel.name, reason=str(error))
        # Channels that are there have warmed Spark up themselves.
        if self._settings.warm_up and not self._store.catalog.channels():
            threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._pool.shutdown(wait=True)
        self._stream.stop()
        if self._real_time is not None:
            self._real_time.stop()
        self._spark.stop()

    def check(self, asked: CreateChannel | Channel) -> CompiledChannel:
        """Compile and analyse; raises StatementError with the position of what is wrong."""
        datasets = {dataset.name: dataset for dataset in self._store.catalog.datasets()}
        return self._runner.compile(asked, datasets)

    def create(self, compiled: CompiledChannel) -> Channel:
        """From now on the channel hears of every record; earlier ones are not its own."""
        mode, reason = self._mode(compiled)
        cut = self._log.cut()
        channel = msgspec.structs.replace(
            compiled.channel,
            created_at=cut.at_us / 1_000_000,
            starts=cut.ends,
            mode=mode,
            mode_reason=reason,
        )
        self._store.catalog.create_channel(channel)
        try:
            self._activate(channel, compiled)
        except BaseException:
            self.drop(channel.name)
            self._store.catalog.drop_channel(channel.name)
            raise
        return channel

    def check_open(self, name: str, mask: Mask) -> None:
        """Raises InvalidInput when the channel cannot run with these parameters open."""
        self._runner.check_open(name, mask)

    def drop(self, name: str) -> None:
        with self._lock:
            self._schedule.remove(name)
        self._stream.unwatch(name)
        if self._real_time is not None:
            self._real_time.unwatch(name)
        self._runner.forget(name)

    def describe(self, name: str) -> list[tuple[str, str]]:
        return self._runner.describe(name)

    def overruns(self, name: str) -> int:
        """Ticks of a repetitive channel that passed unused since the start."""
        with self._lock:
            return self._overruns.get(name, 0)

    def query(self, text: str) -> Answer:
        """An ad hoc SELECT over the datasets as they are now."""
        return answer(self._spark, text, self._snapshots.at(self._log.cut()).stored)

    def drop_dataset(self, dataset: Dataset) -> None:
        self._tables.drop(dataset)
        self._snapshots.forget(dataset.name)

    def _mode(self, compiled: CompiledChannel) -> tuple[Mode, str]:
        """How a new channel is fed, and why."""
        if compiled.channel.kind != "continuous":
            return "micro-batches", ""
        if self._real_time is None:
            return "micro-batches", (
                "real-time mode needs a log on Kafka, a store on PostgreSQL or MariaDB, and"
                " real_time_slots"
            )
        reason = self._real_time.why_not(compiled)
        if reason:
            return "micro-batches", reason
        return "real-time", "it looks at one new record at a time"

    def _activate(self, channel: Channel, compiled: CompiledChannel) -> None:
        self._runner.prepare(channel, compiled)
        if channel.mode == "real-time":
            if self._real_time is None:
                raise SettingError(
                    f"channel {channel.name} was made for real-time mode, which needs a log on"
                    " Kafka and a store on PostgreSQL or MariaDB",
                    field="log",
                    hint="start with the settings it was made with, or drop it and make it again",
                )
            self._real_time.watch(channel, compiled)
            return
        if channel.kind == "continuous":
            self._stream.watch(channel)
            return
        assert channel.period_s is not None
        with self._lock:
            self._schedule.add(channel.name, channel.period_s, channel.created_at, time.time())
        self._wake.set()

    def _warm_up(self) -> None:
        try:
            warm_up(self._spark)
        except Exception:  # the first channel will be slow, or say what is wrong
            if not self._stopping.is_set():  # nobody waits for it
                log.exception("Spark could not be warmed up")

    def _repeat(self) -> None:
        """Start what is due; runs themselves are on the pool's threads."""
        while not self._stopping.is_set():
            with self._lock:
                due = self._schedule.due(time.time())
                next_at = self._schedule.next_at()
            for name in due:
                self._pool.submit(self._run_once, name)
            wait_s = LONGEST_WAIT_S if next_at is None else next_at - time.time()
            self._wake.wait(max(0.0, min(wait_s, LONGEST_WAIT_S)))
            self._wake.clear()

    def _run_once(self, name: str) -> None:
        try:
            self._run_repetitive(name)
        except Exception as error:
            _tell("a repetitive run broke", error, channel=name)
        finally:
            with self._lock:
                overruns = self._schedule.finished(name)
            if overruns:
                OVERRUNS.labels(name).inc(overruns)
                with self._lock:
                    self._overruns[name] = self._overruns.get(name, 0) + overruns
                log.warning("a channel overran its period", channel=name, ticks=overruns)

    def _run_repetitive(self, name: str) -> None:
        channel = self._store.catalog.channel(name)
        last = self._store.runs.last_run(name)
        start_us = last.window_end_us if last else round(channel.created_at * 1_000_000)
        starts = last.ends if last else channel.starts
        snapshot = self._snapshots.recent(start_us, self._log.cut)
        cut = snapshot.cut
        window = Window(start_us, cut.at_us, cut.ends)
        nothing_new = any(starts.get(d, 0) == cut.ends.get(d, 0) for d in channel.new)
        self._runner.run(
            name,
            f"until-{cut.at_us}",
            window,
            snapshot,
            lambda dataset: snapshot.window(dataset, starts.get(dataset, 0)),
            nothing_new=nothing_new,
        )

    def _keep_house(self) -> None:
        expired_at = 0.0
        while not self._stopping.wait(self._settings.flush_interval_s):
            try:
                self._stream.restart_if_failed()
                self._tidy_all()
                if time.time() - expired_at > RETENTION_INTERVAL_S:
                    expired_at = time.time()
                    self._store.results.expire(expired_at - self._settings.result_retention_s)
                    self._tables.sweep()
            except Exception as error:  # a full disk, say: the next round may find more room
                _tell("housekeeping failed", error)

    def _look_after(self) -> None:
        """A new combination of open parameters takes effect within a batch, too."""
        while self._real_time and not self._stopping.wait(self._settings.real_time_batch_s / 2):
            try:
                self._real_time.look_after()
            except Exception as error:  # Kafka or the store is away: the next round may find them
                _tell("channels in real-time mode could not be looked after", error)

    def _tidy_all(self) -> None:
        passed = self._stream.passed()
        if self._real_time is not None:
            for name, end in self._real_time.passed().items():
                passed[name] = min(passed.get(name, end), end)
        for dataset in self._store.catalog.datasets():
            try:
                self._tidy(dataset, passed)
            except Exception as error:  # one dataset's trouble is not the others'
                _tell("housekeeping failed", error, dataset=dataset.name)

    def _tidy(self, dataset: Dataset, passed: dict[str, int]) -> None:
        name = dataset.name
        end = self._log.ends().get(name, 0)
        if end > self._tables.stored_end(dataset):
            self._log.roll(name)
            self._tables.flush(dataset, end)
        self._tables.compact(dataset, horizon=self._horizon(name))
        self._log.retire(name, self._tables.retire_below(dataset, passed.get(name, end)))

    def _horizon(self, dataset: str) -> int | None:
        """The lowest position from which a channel's next window may start."""
        starts = []
        for channel in self._store.catalog.channels():
            if dataset in channel.new:
                last = self._store.runs.last_run(channel.name)
                starts.append((last.ends if last else channel.starts).get(dataset, 0))
        return min(starts, default=None)


def _tell(what: str, error: Exception, **where: str) -> None:
    """What is only away for now needs no trace of the code."""
    if isinstance(error, Unavailable):
        log.warning(what, reason=str(error), **where)
    else:
        log.exception(what, **where)
