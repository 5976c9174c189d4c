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
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
from prometheus_client import Gauge

from tocsin.errors import Damaged, SettingError, TocsinError, Unavailable
from tocsin.language import CreateChannel
from tocsin.model import Arguments, Channel, Dataset, Mode
from tocsin.pipeline.adhoc import Answer, answer
from tocsin.pipeline.channels import CompiledChannel
from tocsin.pipeline.channels.openings import Mask, mask_of
from tocsin.pipeline.dispatcher import Dispatcher, Trouble, tell_trouble
from tocsin.pipeline.failures import Overlong, reason
from tocsin.pipeline.java_process import JavaProcess, forget_session
from tocsin.pipeline.jdbc import jdbc_of
from tocsin.pipeline.lag import Lag, lag_of
from tocsin.pipeline.newcomers import Newcomers
from tocsin.pipeline.real_time import RealTime
from tocsin.pipeline.runner import Bury, Runner
from tocsin.pipeline.session import build_session, runs_in_real_time
from tocsin.pipeline.snapshot import Snapshot, Snapshots
from tocsin.pipeline.tables import Tables
from tocsin.pipeline.warm_up import warm_up
from tocsin.pipeline.window import Window
from tocsin.settings import Settings
from tocsin.storage.log import Cut, PublicationLog, open_reader
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.progress import Progress
from tocsin.storage.runs import Committed
from tocsin.storage.store import Store

log = structlog.get_logger()

RETENTION_INTERVAL_S = 60.0
GRACE_S = 600.0  # files that no manifest names stay so long, or as long as a run may take
PULSE_S = 1.0  # how often Java is looked after
ANSWER_S = 60.0  # Java that does not answer for so long is taken to be dead
OVERLONG_TRIES = 3
STUCK_S = 10.0  # a run that could not be made for so long is no passing trouble
LAG_INTERVAL_S = 2.0

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
        on_commit: Callable[[Channel, Committed], None],
        bury: Bury,
    ) -> None:
        self._settings = settings
        self._store = store
        self._log = publication_log
        self._spark = build_session(settings)
        self._java = JavaProcess(self._spark)
        self._dead = threading.Event()
        self._answers = True
        data = Path(settings.data).absolute()
        self._reader = open_reader(publication_log.address)
        self._tables = Tables(
            self._spark,
            self._reader,
            data / "datasets",
            store.files,
            compact_files=settings.compact_files,
            grace_s=max(GRACE_S, 2 * settings.run_limit_s),
        )
        self._snapshots = Snapshots(self._tables, store.catalog.dataset)
        self._runner = Runner(self._spark, store, on_commit=on_commit, bury=bury)
        self._newcomers = Newcomers()
        self._real_time = self._in_real_time(data)
        self._dispatcher = Dispatcher(self._run, self._has_news, limit_s=settings.run_limit_s)
        self._most_bytes: dict[str, int] = {}  # of channels whose runs took too long
        self._overlong: dict[str, int] = {}
        self._stopping = threading.Event()
        self._unwatch_log: Callable[[], None] = lambda: None
        self._threads = [
            threading.Thread(target=self._keep_house, name="housekeeping", daemon=True),
            threading.Thread(target=self._look_after, name="real-time", daemon=True),
            threading.Thread(target=self._feel_pulse, name="pulse", daemon=True),
            threading.Thread(target=self._measure, name="lag", daemon=True),
        ]

    def _in_real_time(self, data: Path) -> RealTime | None:
        settings = self._settings
        jdbc = jdbc_of(settings.store)
        if jdbc is None or not runs_in_real_time(settings):
            return None
        directory = data / "real-time"
        shutil.rmtree(directory, ignore_errors=True)  # checkpoints of queries that are no more
        return RealTime(
            self._spark,
            KafkaAddress.parse(settings.log),
            jdbc,
            self._store.catalog.dataset,
            self._open_in,
            directory,
            batch_s=settings.real_time_batch_s,
            slots=settings.real_time_slots,
        )

    def _open_in(self, channel: str) -> set[Mask]:
        return {mask_of(each) for each in self._store.subscriptions.open_sets(channel)}

    def start(self) -> None:
        """Take up every channel of the catalog where it was left. Afterwards the first statement
        finds a Spark that is awake."""
        channels = self._store.catalog.channels()
        if self._settings.warm_up and not channels:  # channels warm Spark up themselves
            self._warm_up()
        for channel in channels:
            try:
                self._activate(channel, self.check(channel))
            except TocsinError as error:  # the others go on
                log.error("a channel cannot run", channel=channel.name, reason=str(error))
        self._unwatch_log = self._log.watch(self._dispatcher.wake)
        self._dispatcher.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Whether Java lives or not."""
        self._stopping.set()
        self._unwatch_log()
        alive = not self._dead.is_set() and not self._java.has_ended()
        if alive:
            self._spark.sparkContext.cancelAllJobs()
        self._dispatcher.stop(wait=alive)
        for thread in self._threads if alive else ():
            if thread.is_alive():
                thread.join()
        if alive:
            if self._real_time is not None:
                self._real_time.stop()
            self._spark.stop()
        else:
            self._java.kill()
            forget_session()

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
        stuck_since = time.time() - STUCK_S
        stuck = [
            f"channel {name}: {each.reason}"
            for name, each in sorted(self._dispatcher.troubles().items())
            if each.since < stuck_since
        ]
        return self.absence or "; ".join(stuck) or None

    def check(self, asked: CreateChannel | Channel) -> CompiledChannel:
        """Compile and analyse; raises StatementError with the position of what is wrong."""
        datasets = {dataset.name: dataset for dataset in self._store.catalog.datasets()}
        return self._runner.compile(asked, datasets)

    def create(self, compiled: CompiledChannel) -> Channel:
        """From now on the channel hears of every record; earlier ones are not its own."""
        mode, why = self._mode(compiled)
        cut = self._log.cut()
        channel = msgspec.structs.replace(
            compiled.channel,
            created_at=cut.at_us / 1_000_000,
            starts=cut.ends,
            mode=mode,
            mode_reason=why,
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

    def check_arguments(self, name: str, arguments: Arguments) -> None:
        """Raises InvalidInput when the channel's query cannot compute with these."""
        self._runner.check_arguments(name, arguments)

    def subscribed(self, name: str) -> None:
        """A subscription was made."""
        self._newcomers.expect(name)
        self._dispatcher.wake()

    def drop(self, name: str) -> None:
        self._dispatcher.remove(name)
        for gauge in (BEHIND_SECONDS, BEHIND_RECORDS):
            with contextlib.suppress(KeyError):  # it was never told
                gauge.remove(name)
        self._newcomers.unwatch(name)
        if self._real_time is not None:
            self._real_time.unwatch(name)
        self._runner.forget(name)

    def describe(self, name: str) -> list[tuple[str, str]]:
        return self._runner.describe(name)

    def overruns(self, name: str) -> int:
        return self._dispatcher.overruns(name)

    def trouble_of(self, name: str) -> Trouble | None:
        return self._dispatcher.troubles().get(name)

    def is_slow(self, name: str) -> bool:
        return self._dispatcher.is_slow(name)

    def lag(self, channel: Channel) -> Lag:
        """How far a channel is behind. In real-time mode Spark tells how far it is when a batch
        ends; while it runs, what it has not told yet is milliseconds old."""
        real_time = self._real_time if channel.mode == "real-time" else None
        if real_time is not None and real_time.is_running(channel.name):
            return Lag(0.0, 0)
        reached, ends = self._runner.progress(channel).ends, self._log.ends()
        return lag_of(channel, reached, ends, self._tables, self._store.catalog.dataset)

    def query(self, text: str) -> Answer:
        """An ad hoc SELECT over the datasets as they are now."""
        stored = self._snapshots.take(self._log.cut).stored
        return answer(self._spark, text, stored, limit_s=self._settings.query_limit_s)

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
            stands = self._runner.progress(channel)
            self._newcomers.watch(channel, stands.settled)
            self._real_time.watch(channel, compiled, stands.ends[channel.new[0]])
        self._dispatcher.add(channel)

    def _warm_up(self) -> None:
        try:
            warm_up(self._spark)
        except Exception:  # the first channel will be slow, or say what is wrong
            log.exception("Spark could not be warmed up")

    def _has_news(self, channel: Channel) -> bool:
        ends = self._log.ends()
        if channel.mode == "real-time":
            return self._newcomers.need_run(channel.name, ends.get(channel.new[0], 0))
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
        if channel.mode == "real-time":
            self._run_newcomers(channel, limit_s)
            return
        since = self._runner.progress(channel)
        snapshot = self._snapshots.recent(since.at_us, self._log.cut, _beyond(channel, since))
        window = self._window(channel, compiled, since, snapshot)
        try:
            self._runner.run(name, window, snapshot, limit_s=limit_s)
        except Overlong as error:
            if limit_s < self._settings.run_limit_s:
                raise  # there is more patience among the slow ones
            self._took_too_long(channel, window, error)
            raise
        self._overlong.pop(name, None)
        self._most_bytes.pop(name, None)

    def _window(
        self, channel: Channel, compiled: CompiledChannel, since: Progress, snapshot: Snapshot
    ) -> Window:
        """Up to the snapshot's cut. A continuous channel that is far behind takes it in pieces,
        unless its query can tell how long a piece is."""
        ends = {name: snapshot.cut.ends.get(name, 0) for name in channel.new}
        if channel.kind == "continuous" and len(channel.new) == 1 and not compiled.uses_window:
            (name,) = channel.new
            most_bytes = self._most_bytes.get(channel.name, self._settings.batch_bytes)
            dataset = self._store.catalog.dataset(name)
            ends[name] = self._tables.bound(
                dataset, since.ends.get(name, 0), ends[name], most_bytes
            )
        return Window(since, Progress(ends, snapshot.cut.at_us))

    def _took_too_long(self, channel: Channel, window: Window, error: Overlong) -> None:
        """Try less at a time. When there is no less, the query itself is too slow."""
        name = channel.name
        if channel.kind == "continuous" and len(channel.new) == 1:
            (new,) = channel.new
            start, end = window.range(new)
            self._most_bytes[name] = max(1, self._reader.size_bytes(start, end) // 4)
            dataset = self._store.catalog.dataset(new)
            if self._tables.bound(dataset, start, end, self._most_bytes[name]) < end:
                return
        self._overlong[name] = self._overlong.get(name, 0) + 1
        if self._overlong[name] >= OVERLONG_TRIES:
            self._runner.give_up(name, window, f"{error} (setting run_limit_s)")
            self._overlong.pop(name)

    # Real-time mode

    def _run_newcomers(self, channel: Channel, limit_s: float) -> None:
        name, dataset = channel.name, channel.new[0]
        settled = self._newcomers.settled(name)
        self._newcomers.arrived(name, self._store.subscriptions.made_after(name, settled))
        snapshot = self._snapshots.take(self._log.cut)
        start, sets = self._newcomers.begin(name)
        end = snapshot.cut.ends.get(dataset, 0)
        if sets and start < end:
            window = Window(Progress({dataset: start}, 0), Progress({dataset: end}, 0))
            self._runner.run_for(name, window, snapshot, sets, limit_s=limit_s)
        self._newcomers.ran(name, sets, end)

    def _look_after(self) -> None:
        """A new combination of open parameters takes effect within a batch, too."""
        while self._real_time and not self._stopping.wait(self._settings.real_time_batch_s / 2):
            try:
                failed = self._real_time.look_after()
                for channel in self._store.catalog.channels():
                    if channel.mode == "real-time" and channel.name not in failed:
                        self._note_progress(self._real_time, channel)
                for name, error in failed.items():
                    self._recover(self._real_time, name, error)
            except Exception as error:  # Kafka or the store is away: the next round may find them
                if not self._stopping.is_set():
                    tell_trouble("channels in real-time mode could not be looked after", error, "")

    def _note_progress(self, real_time: RealTime, channel: Channel) -> None:
        reached = real_time.reached(channel.name)
        if reached is None:
            return
        settled = self._newcomers.hand_over(channel.name, real_time.batches(channel.name))
        ends = {channel.new[0]: reached}
        self._runner.move(channel, Progress(ends, self._runner.progress(channel).at_us, settled))

    def _recover(self, real_time: RealTime, name: str, error: Exception) -> None:
        """A record or an argument stopped Spark's query: ordinary runs find out which, and take
        the channel past it."""
        log.warning("a channel's real-time query failed", channel=name, reason=reason(error))
        channel, compiled = self._store.catalog.channel(name), self._runner.compiled(name)
        if compiled is None:
            return
        (dataset,) = channel.new
        while self._runner.progress(channel).ends[dataset] < self._log.ends().get(dataset, 0):
            since = self._runner.progress(channel)
            snapshot = self._snapshots.take(self._log.cut)
            window = self._window(channel, compiled, since, snapshot)
            self._runner.run(name, window, snapshot, limit_s=self._settings.run_limit_s)
        real_time.watch(channel, compiled, self._runner.progress(channel).ends[dataset])

    # Housekeeping

    def _feel_pulse(self) -> None:
        asked_at = time.monotonic()
        while not self._stopping.wait(PULSE_S):
            if self._java.has_ended():
                log.error("Spark's Java process has ended", pid=self._java.pid)
                break
            self._answers = self._java.answers(10 * PULSE_S)
            if self._answers:
                asked_at = time.monotonic()
            elif time.monotonic() - asked_at > ANSWER_S:
                log.error("Spark's Java process does not answer and is killed", pid=self._java.pid)
                self._java.kill()
                break
        self._dead.set()

    def _measure(self) -> None:
        """Let everybody see how far channels are behind."""
        while not self._stopping.wait(LAG_INTERVAL_S) and not self._dead.is_set():
            with contextlib.suppress(TocsinError, OSError):  # the store is away: later
                for channel in self._store.catalog.channels():
                    lag = self.lag(channel)
                    BEHIND_SECONDS.labels(channel.name).set(lag.seconds)
                    BEHIND_RECORDS.labels(channel.name).set(lag.records)

    def _keep_house(self) -> None:
        expired_at = 0.0
        while not self._stopping.wait(self._settings.flush_interval_s):
            if self._dead.is_set():
                return
            try:
                self._tidy_all()
                if time.time() - expired_at > RETENTION_INTERVAL_S:
                    expired_at = time.time()
                    self._store.results.expire(expired_at - self._settings.result_retention_s)
                    self._tables.sweep()
            except Exception as error:  # a full disk, say: the next round may find more room
                self._told(error)

    def _tidy_all(self) -> None:
        passed = {} if self._real_time is None else self._real_time.passed()
        for dataset in self._store.catalog.datasets():
            try:
                self._tidy(dataset, passed)
            except Exception as error:  # one dataset's trouble is not the others'
                self._told(error, dataset=dataset.name)

    def _told(self, error: Exception, **where: str) -> None:
        if self._stopping.is_set() or self._java.has_ended():
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


def _beyond(channel: Channel, since: Progress) -> Callable[[Cut], bool]:
    """Whether a cut has something new for a continuous channel."""

    def serves(cut: Cut) -> bool:
        return channel.kind != "continuous" or any(
            since.ends.get(name, 0) < cut.ends.get(name, 0) for name in channel.new
        )

    return serves
