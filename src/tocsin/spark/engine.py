"""Spark at work: channels run as their records come or their ticks pass; housekeeping.

The cluster's service talks to this object alone. It is started once, is thread-safe, and everything
it needs to go on after a kill lies in the log and the store. When its Java process ends, it is
dead: `until_dead` returns, and another engine takes up where the store says that channels stand.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import structlog
from prometheus_client import Gauge
from pyspark.sql import SparkSession

from tocsin.clock import Clock
from tocsin.errors import InvalidInput, NotFound, SettingError, TocsinError, Unavailable
from tocsin.model import Arguments, Channel, Dataset, Mode
from tocsin.service.trouble import Trouble, Troubles
from tocsin.settings import Settings
from tocsin.spark.adhoc import Answer, answer
from tocsin.spark.answering import Bury
from tocsin.spark.channels import CompiledChannel
from tocsin.spark.channels.openings import Mask, mask_of
from tocsin.spark.dispatcher import Dispatcher
from tocsin.spark.housekeeping import Housekeeping
from tocsin.spark.java_process import JavaProcess, forget_session
from tocsin.spark.jdbc import jdbc_of
from tocsin.spark.lag import Lag, lag_of
from tocsin.spark.real_time.channels import RealTimeChannels
from tocsin.spark.real_time.joining import Members, sharing_session
from tocsin.spark.real_time.queries import Queries
from tocsin.spark.real_time.streaming import Streaming, StreamingConfig
from tocsin.spark.runner import Runner
from tocsin.spark.session import build_session, runs_in_real_time
from tocsin.spark.snapshot import Snapshots
from tocsin.spark.steps import Steps
from tocsin.spark.tables import TableLimits, Tables
from tocsin.spark.tables.opening import open_medium
from tocsin.spark.warm_up import warm_up
from tocsin.sql import CreateChannel
from tocsin.storage.log import PublicationLog, Reader, open_reader
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store
from tocsin.storage.tables import TableFiles

log = structlog.get_logger()

GRACE_S = 600.0  # files that no manifest names stay so long, or as long as a run may take
PULSE_S = 1.0  # how often Java is looked after
ANSWER_S = 10.0  # within which Java should answer
LAG_INTERVAL_S = 2.0
TRY_AGAIN_S = 30.0  # channels that could not be taken up
TAKEN_UP_AT_ONCE = 4

BEHIND_SECONDS = Gauge(
    "tocsin_channel_behind_seconds", "Age of the oldest record it has not looked at", ["channel"]
)
BEHIND_RECORDS = Gauge(
    "tocsin_channel_behind_records", "Records that it has not looked at", ["channel"]
)


class Engine:
    """Owns the Spark session."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        publication_log: PublicationLog,
        tables: TableFiles,
        on_commit: Callable[[Channel, Committed], None],
        bury: Bury,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """`spark`: a session that is awake; without one it starts its own."""
        self._clock = clock or Clock()
        self._settings = settings
        self._store = store
        self._log = publication_log
        self._spark = spark or build_session(settings)
        self._java = JavaProcess(self._spark)
        self._dead = threading.Event()
        self._was_alive = False  # when it was halted
        self._answers = True
        self._data = Path(settings.data).absolute()
        reader = open_reader(publication_log.address)
        self._tables = self._new_tables(reader, tables)
        self._snapshots = Snapshots(self._tables, store.catalog.dataset)
        self._runner = self._new_runner(on_commit, bury)
        self._steps = Steps(
            self._runner,
            self._snapshots,
            publication_log,
            reader,
            batch_bytes=settings.batch_bytes,
            limit_s=settings.run_limit_s,
        )
        self._query_troubles = Troubles()  # by channel, of Spark's own queries
        self._troubles = Troubles()  # of all else
        self._real_time = self._in_real_time(reader)
        self._catalog_lock = threading.Lock()  # one channel is taken up or dropped at a time
        self._dispatcher = Dispatcher(
            self._run,
            self._has_news,
            self._troubles,
            limit_s=settings.run_limit_s,
            clock=self._clock.now,
        )
        self._housekeeping = self._new_housekeeping()
        self._stopping = threading.Event()
        self._unwatch_log: Callable[[], None] = lambda: None
        self._pulse = threading.Thread(target=self._feel_pulse, name="pulse", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def _new_tables(self, reader: Reader, files: TableFiles) -> Tables:
        settings = self._settings
        limits = TableLimits(
            compact_files=settings.compact_files, grace_s=max(GRACE_S, 2 * settings.run_limit_s)
        )
        medium = open_medium(self._spark, settings, self._store, files)
        return Tables(self._spark, reader, medium, limits, clock=self._clock.trusted)

    def _new_runner(self, on_commit: Callable[[Channel, Committed], None], bury: Bury) -> Runner:
        return Runner(
            self._spark,
            self._store,
            on_commit=on_commit,
            bury=bury,
            result_limit_bytes=self._settings.result_limit_bytes,
            patience_s=self._settings.run_limit_s,
        )

    def _new_housekeeping(self) -> Housekeeping:
        return Housekeeping(
            self._settings,
            self._store,
            self._log,
            self._snapshots,
            self._runner,
            passed=lambda: {} if self._real_time is None else self._real_time.passed(),
            is_over=lambda: self._dead.is_set() or self._java.has_ended(),
            clock=self._clock,
        )

    def _in_real_time(self, reader: Reader) -> RealTimeChannels | None:
        settings = self._settings
        jdbc = jdbc_of(settings.store)
        if jdbc is None or not runs_in_real_time(settings):
            return None
        from tocsin.storage.log.kafka import KafkaReader  # its library is an extra

        checkpoints = self._data / "real-time"
        shutil.rmtree(checkpoints, ignore_errors=True)  # of queries that are no more
        directory = checkpoints / str(self._store.lease.number)  # a former leader may still write
        address = KafkaAddress.parse(settings.log)
        config = StreamingConfig(
            address,
            jdbc,
            directory,
            batch_s=settings.real_time_batch_s,
            reader=reader,
            base=KafkaReader(address).base,
        )
        session = sharing_session(self._spark)
        queries = Queries(
            Streaming(session, config, self._store.catalog.dataset),
            Members(session).make,
            settings.real_time_slots,
            lambda channel: self._runner.progress(channel).ends.get(channel.new[0], 0),
            self._log.ends,
            self._open_in,
            self._query_troubles,
        )
        return RealTimeChannels(
            queries, self._runner, self._steps, self._snapshots, self._store, self._log, settings
        )

    def _open_in(self, channel: str) -> set[Mask]:
        return {mask_of(arguments) for arguments in self._store.subscriptions.open_sets(channel)}

    def start(self) -> None:
        """Take up every channel of the catalog where it was left; each goes on while the others are
        taken up. Afterwards the first statement finds a Spark that is awake."""
        self._pulse.start()
        channels = self._store.catalog.channels()
        if self._settings.warm_up and not channels:  # channels warm Spark up themselves
            self._warm_up()
        self._unwatch_log = self._log.watch(self._dispatcher.wake)
        self._dispatcher.start()
        # Nobody creates or drops one yet, and the last one should not wait for all others.
        with ThreadPoolExecutor(TAKEN_UP_AT_ONCE, thread_name_prefix="take-up") as pool:
            list(pool.map(self._take_up, channels))
        if self._real_time is not None:  # now that all are there, their queries begin but once
            self._real_time.start()
        self._housekeeping.start()
        self._watcher.start()

    def stop(self) -> None:
        """Whether Java lives or not."""
        self.halt()
        self.end()

    def halt(self) -> None:
        """Nothing is asked of Spark any more, and nothing written."""
        self._stopping.set()
        self._unwatch_log()
        alive = not self._dead.is_set() and not self._java.has_ended()
        self._was_alive = alive
        if alive:
            self._spark.sparkContext.cancelAllJobs()
        self._dispatcher.stop(wait=alive)
        self._housekeeping.stop(wait=alive)
        if self._real_time is not None:
            self._real_time.stop(alive=alive)

    def end(self) -> None:
        """The Spark session ends. It was halted before."""
        if not self._was_alive or self._java.has_ended():
            self._java.kill()
            forget_session()
            return
        for thread in (self._pulse, self._watcher):
            if thread.is_alive():
                thread.join()
        self._spark.stop()

    def until_dead(self) -> None:
        """Wait until Java has ended without being asked to, or the engine is stopped."""
        while not self._dead.wait(PULSE_S) and not self._stopping.is_set():
            pass

    @property
    def absence(self) -> str | None:
        """Why nothing can be asked of Spark now; None: it can."""
        if self._dead.is_set() or self._java.has_ended():
            return "Spark's Java process has ended; it is started again"
        return None if self._answers else "Spark's Java process does not answer"

    @property
    def trouble(self) -> str | None:
        """Why records do not flow; None: they do."""
        lasting = (*self._troubles.lasting(), *self._query_troubles.lasting())
        stuck = [f"channel {trouble}" for trouble in lasting]
        return self.absence or "; ".join(stuck) or None

    def check(self, channel: CreateChannel | Channel) -> CompiledChannel:
        """Compile and analyse; raises StatementError with the position of what is wrong."""
        datasets = {dataset.name: dataset for dataset in self._store.catalog.datasets()}
        return self._runner.compile(channel, datasets)

    def create(self, compiled: CompiledChannel) -> Channel:
        """From now on the channel gets every record; earlier ones are not its own."""
        mode, why = self._mode(compiled)
        cut = self._log.cut()
        channel = msgspec.structs.replace(
            compiled.channel,
            created_at=cut.at_us / 1_000_000,
            starts=cut.ends,
            mode=mode,
            mode_reason=why,
        )
        if self._real_time is not None:
            self._real_time.release(channel.name)
        self._store.catalog.create_channel(channel)
        try:
            with self._catalog_lock:
                self._activate(channel, compiled)
                if self._real_time is not None and mode == "real-time":
                    self._real_time.watch(channel, compiled)
        except BaseException:
            self.drop(channel.name)
            self._store.catalog.drop_channel(channel.name)
            raise
        return channel

    def check_open(self, name: str, mask: Mask) -> None:
        """Raises InvalidInput when the channel cannot run with these parameters open."""
        self._runner.check_open(name, mask)

    def vouches(self, name: str, arguments: Arguments) -> bool:
        """Whether it is known without waiting that the channel can compute with these."""
        return self._runner.vouches(name, arguments)

    def first_refused(
        self, name: str, sets: Sequence[Arguments]
    ) -> tuple[int, InvalidInput] | None:
        """The first arguments that the channel's query cannot compute with, and why."""
        return self._runner.first_refused(name, sets)

    def subscribed(self, name: str) -> None:
        """A subscription was made."""
        if self._real_time is not None:
            self._real_time.subscribed(name)
        self._dispatcher.wake()

    def drop(self, name: str) -> None:
        with self._catalog_lock:
            self._dispatcher.remove(name)
            if self._real_time is not None:
                self._real_time.unwatch(name)
            self._steps.forget(name)
            self._runner.forget(name)
        for gauge in (BEHIND_SECONDS, BEHIND_RECORDS):
            with contextlib.suppress(KeyError):  # it was never counted
                gauge.remove(name)

    def describe(self, channel: Channel) -> list[tuple[str, str]]:
        described = self._runner.describe(channel.name)
        if self._real_time is not None and channel.mode == "real-time":
            described.insert(0, ("real-time query", self._real_time.describe(channel.name)))
        return described

    def overruns(self, name: str) -> int:
        return self._dispatcher.overruns(name)

    def trouble_of(self, name: str) -> Trouble | None:
        return self._troubles.of(name) or self._query_troubles.of(name)

    def is_slow(self, name: str) -> bool:
        return self._dispatcher.is_slow(name)

    def lag(self, channel: Channel) -> Lag:
        """How far a channel is behind."""
        reached, ends = self._runner.progress(channel).ends, self._log.ends()
        lag = lag_of(channel, reached, ends, self._tables, self._store.catalog.dataset)
        real_time = self._real_time if channel.mode == "real-time" else None
        if real_time is not None and real_time.keeps_up(channel.name, lag.seconds):
            return Lag(0.0, 0)
        return lag

    def query(self, text: str, subscriber: str = "") -> Answer:
        """An ad hoc SELECT over the datasets as they are now; `subscriber` asks."""
        stored = self._snapshots.take(self._log.cut).stored
        limit_s = self._settings.query_limit_s
        return answer(self._spark, text, stored, limit_s=limit_s, subscriber=subscriber)

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
        why_not = self._real_time.why_not(compiled)
        if why_not:
            return "micro-batches", why_not
        return "real-time", "it looks at one new record at a time"

    def _take_up(self, channel: Channel) -> None:
        """A channel of the catalog. One that cannot run is in trouble, and tried again."""
        name = channel.name
        try:
            compiled = self.check(self._store.catalog.channel(name))
            self._activate(channel, compiled)
        except NotFound:  # dropped meanwhile
            return
        except TocsinError as error:  # the others go on
            if self._troubles.put(name, f"it cannot run: {error}"):
                log.error("a channel cannot run", channel=name, reason=str(error))
            return
        self._troubles.clear(name)
        if self._real_time is not None and channel.mode == "real-time":
            self._real_time.watch(channel, compiled)

    def _activate(self, channel: Channel, compiled: CompiledChannel) -> None:
        real_time = self._real_time if channel.mode == "real-time" else None
        if channel.mode == "real-time" and real_time is None:
            raise SettingError(
                f"channel {channel.name} was made for real-time mode, which needs a log on"
                " Kafka and a store on PostgreSQL or MariaDB",
                field="log",
                hint="start with the settings it was made with, or drop it and make it again",
            )
        self._runner.prepare(channel, compiled)
        if real_time is not None:
            real_time.expect(channel)
        self._dispatcher.add(channel)

    def _warm_up(self) -> None:
        try:
            warm_up(self._spark)
        except Exception:  # the first channel will be slow, or say what is wrong
            log.exception("Spark could not be warmed up")

    def _has_news(self, channel: Channel) -> bool:
        ends = self._log.ends()
        if channel.mode == "real-time" and self._real_time is not None:
            return self._real_time.need_run(channel, ends.get(channel.new[0], 0))
        reached = self._runner.progress(channel).ends
        return any(reached.get(name, 0) < ends.get(name, 0) for name in channel.new)

    def _run(self, name: str, limit_s: float) -> None:
        """On a thread of the dispatcher."""
        if self._java.has_ended():
            raise Unavailable("Spark's Java process has ended", hint="it is started again")
        channel, compiled = self._store.catalog.channel(name), self._runner.compiled(name)
        if compiled is None:  # dropped meanwhile
            return
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        if channel.mode == "real-time" and self._real_time is not None:
            self._real_time.run(channel, compiled, limit_s)
        else:
            self._steps.take(channel, compiled, limit_s)

    def _feel_pulse(self) -> None:
        asked_at = time.monotonic()
        while not self._stopping.wait(PULSE_S):
            if self._java.has_ended():
                log.error("Spark's Java process has ended", pid=self._java.pid)
                break
            self._answers = self._java.answers(min(ANSWER_S, self._settings.java_limit_s))
            if self._answers:
                asked_at = time.monotonic()
            elif time.monotonic() - asked_at > self._settings.java_limit_s:
                log.error("Spark's Java process does not answer and is killed", pid=self._java.pid)
                self._java.kill()
                break
        self._dead.set()

    def _watch(self) -> None:
        """Let everybody see how far channels are behind; take up those that could not be."""
        tried_at = time.monotonic()
        while not self._stopping.wait(LAG_INTERVAL_S) and not self._dead.is_set():
            with contextlib.suppress(TocsinError, OSError):  # the store is away: later
                channels = self._store.catalog.channels()
                for channel in channels:
                    lag = self.lag(channel)
                    BEHIND_SECONDS.labels(channel.name).set(lag.seconds)
                    BEHIND_RECORDS.labels(channel.name).set(lag.records)
                if time.monotonic() > tried_at + TRY_AGAIN_S:
                    tried_at = time.monotonic()
                    for channel in channels:
                        if self._is_refused(channel.name):
                            with self._catalog_lock:
                                self._take_up(channel)

    def _is_refused(self, name: str) -> bool:
        """Not one that is just being made."""
        return self._runner.compiled(name) is None and self._troubles.of(name) is not None
