"""The data cluster as a process of the simulated world: the real publication log, store, runs,
housekeeping and notices, driven in virtual time, on a disk that breaks.

It has one thread: whatever takes its time there (a query, an fsync) lets the world go on meanwhile.
When it dies, its objects are abandoned, and the files become what a crash leaves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlalchemy import Connection, event, exc

from tocsin.backoff import Backoff
from tocsin.broker.machine.events import NewHead
from tocsin.clock import Clock
from tocsin.cluster.broker_news import WAITING_BYTES_AT_MOST, BrokerNews, growths, parts
from tocsin.cluster.burying import letters_of
from tocsin.cluster.log_positions import counts_from, newest_time, open_dataset
from tocsin.cluster.notices import FORGET_S
from tocsin.errors import Damaged, TocsinError, Unavailable
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.model import Channel, Subscription
from tocsin.settings import Settings
from tocsin.spark.answering import Answering, Prepared
from tocsin.spark.asking import Overlong, Record
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.housekeeping import Housekeeping
from tocsin.spark.repetition import Schedule
from tocsin.spark.steps import Steps
from tocsin.storage.log import Appended, PublicationLog
from tocsin.storage.log.segments import SegmentReader, Segments
from tocsin.storage.store.database import Database
from tocsin.storage.store.incarnation import read_note, write_note
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store
from tocsin.storage.tables.parquet import ParquetFiles
from tocsin.testing.simulation.backups import Backup, back_up
from tocsin.testing.simulation.checkers import BrokenPromise, promise
from tocsin.testing.simulation.cluster_memory import Cuts, Environment, Life, Task
from tocsin.testing.simulation.crash import abandon, repair
from tocsin.testing.simulation.disk import Crashed, SimulatedDisk
from tocsin.testing.simulation.questions import (
    CHANNELS,
    INTERESTS,
    REPORTS,
    USERS,
    PlainQueries,
    PlainSets,
)
from tocsin.testing.simulation.store_file import StoreFile
from tocsin.testing.simulation.stored import StoredFiles

_FULL = "database or disk is full"  # SQLite's words
NOTE_EVERY_S = 1.0  # of how far the store is
EPOCH_S = 1_760_000_000.0  # what clocks show when the world begins
T = TypeVar("T")


class ClusterProcess:
    def __init__(self, around: Environment, directory: Path, disk: SimulatedDisk) -> None:
        self.around = around
        self.directory = directory
        self._file = directory / "store.db"
        self.backup: Backup | None = None
        self.disk = disk
        disk.waits = self._sync_takes
        self.skew_s = 0.0
        self.life: Life | None = None
        self.incarnation = 0
        self.crash_at_commit: int | None = None
        self.store_full = False
        self.broken: BrokenPromise | None = None  # while something took its time
        self.starts = self.repairs = self.failed_runs = self.overlong = self.runs_made = (
            self.commits
        ) = 0
        self.segment_bytes = around.random.choice([300, 1000, 100_000])
        self.tidy_s = around.random.choice([0.5, 5.0, 60.0])
        self.batch_bytes = around.random.choice([400, 5000])

    # -- life and death ---------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.life is not None

    def wall(self) -> float:
        """What the machine's clock shows, which is set."""
        return EPOCH_S + self.around.agenda.now + self.skew_s

    def steady(self) -> float:
        return self.around.agenda.now

    def create(self, files: Mapping[str, bytes]) -> None:
        """Start for the first time, with these files on the disk."""
        for name, data in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.disk.settle(self.directory / "log")
        self.start()

    def make_all(self) -> None:
        self.start()
        life = self._life()
        for dataset in (DEAD_LETTERS, REPORTS, USERS):
            life.log.create_dataset(dataset.name, dataset.primary_key)
            life.store.catalog.create_dataset(dataset)
        for channel, _ in CHANNELS.values():
            cut = life.log.cut()
            made = msgspec.structs.replace(channel, created_at=cut.at_us / 1e6, starts=cut.ends)
            self._take_up(life, life.store.catalog.create_channel(made))

    def start(self) -> None:
        """Dies of it if the disk says so; damage is repaired by an operator who sees the error."""
        if self.alive:
            return
        try:
            try:
                self._open()
            except Damaged:
                self.repair()
                self._open()
        except Crashed:
            self.fall(power=self.around.random.random() < 0.5)
        except Unavailable:  # a disk that fails: it is started again by and by
            self.fall(power=False)
        else:
            self.around.committed()  # as it is before anything else happens

    def fall(self, *, power: bool) -> None:
        """Die. With the power goes what was not synced."""
        life, self.life = self.life, None
        self.incarnation += 1
        self.crash_at_commit = None
        if life is not None:
            abandon(life.database, self._file, self.around.random, power=power)
            life.medium.close()
        if power:
            self.disk.power_cut()
        else:
            self.disk.kill()
        self.around.cluster_died()

    def repair(self) -> None:
        """As `tocsin repair --cut` does, while the process is down."""
        happened = self.around.happened
        known = happened["flipped bit"] + happened["lost sector"] > 0
        promise(known, "the log is damaged after crashes that damage nothing")
        self.repairs += 1
        with Store(self._database()) as store:
            repair(self.directory / "log", store)
        self.disk.settle(self.directory / "log")

    def back_up(self) -> None:
        self.backup = back_up(self._file, self._life(), self.repairs)

    def restore(self) -> bool:
        """Die, and find the store as it was when it was backed up, if that fits; whether it did."""
        life, backup = self._life(), self.backup
        if backup is None or not backup.fits(self.directory, life, self.repairs):
            return False
        self.fall(power=False)
        backup.restore(self._file)
        return True

    def enter(self, act: Callable[[Life], T]) -> T:
        """Let the process do something; it may die of it."""
        life, incarnation = self._life(), self.incarnation
        try:
            return act(life)
        except Crashed:
            if self.incarnation == incarnation:
                self.fall(power=self.around.random.random() < 0.5)
            raise Unavailable("no answer: the cluster died") from None
        finally:
            self.around.committed()

    def _life(self) -> Life:
        if self.life is None:
            raise Unavailable("no answer: the cluster is down")
        return self.life

    def _database(self) -> Database:
        dialect = StoreFile.at(self._file)
        return Database(dialect, busy_timeout_s=0.5, patience_s=0.0, clock=self.wall)

    def _open(self) -> None:
        self.starts += 1
        database = self._database()
        store = Store(database)
        medium = None
        try:
            clock = Clock(self.wall, self.steady)
            clock.reach(newest_time(store))
            store.use_clock(clock.now)
            store.follow(read_note(self.directory))
            write_note(self.directory, store.incarnation.seen())
            directory = self.directory / "log"
            medium = Segments(directory, segment_bytes=self.segment_bytes, disk=self.disk)
            log = PublicationLog(
                medium,
                clock=clock.now,
                not_before_us=store.progress.latest_us(),
                own_thread=False,
            )
            life = self._new_life(clock, store, database, medium, log)
            tables = ParquetFiles(store.files, self.directory / "datasets")
            for dataset in store.catalog.datasets():
                open_dataset(log, store, tables, dataset, life.reader)
            clock.reach(log.cut().at_us / 1e6)
        except BaseException:
            store.close()
            if medium is not None:
                medium.close()
            raise
        event.listen(database.engine, "commit", self._committing)
        self.life = life
        for channel in store.catalog.channels():
            self._take_up(life, channel)
        for broker in store.catalog.brokers():
            life.news[broker.name] = self._new_news(broker.name, store)
        log.watch(lambda: self._soon(self._look))
        self._note_ends(life)
        log.watch(lambda: self._note_ends(life))
        self._soon(self._look)
        self._every(1.0, self._look)
        self._every(NOTE_EVERY_S, self._note)
        self._every(FORGET_S, _forget_elsewhere)
        self._every(self.tidy_s, lambda life: life.housekeeping.tidy())

    def _new_news(self, broker: str, store: Store) -> BrokerNews:
        """At times there is room for few results, and the others are told by their heads."""
        most_bytes = self.around.random.choice([500, WAITING_BYTES_AT_MOST])
        number = self.around.random.getrandbits(48)
        return BrokerNews(broker, store.sequence(), most_bytes=most_bytes, number=number)

    def _note(self, life: Life) -> None:
        write_note(self.directory, life.store.incarnation.seen())

    def _note_ends(self, life: Life) -> None:
        life.ends.append((self.steady(), life.log.ends()))

    def _new_life(
        self,
        clock: Clock,
        store: Store,
        database: Database,
        medium: Segments,
        log: PublicationLog,
    ) -> Life:
        reader = SegmentReader(self.directory / "log")
        files = StoredFiles(
            reader, store.files, self.directory / "datasets", clock=clock.trusted, grace_s=5.0
        )
        cuts = Cuts(files, store, self.wall, self.steady)
        answering = Answering(
            PlainQueries(files, self._compute),
            store,
            partial(self._bury, log),
            result_limit_bytes=10_000,
            patience_s=0.0,
        )
        runs = ChannelRuns(store, answering, on_commit=self._stored)
        steps = Steps(runs, cuts, log, reader, batch_bytes=self.batch_bytes, limit_s=60.0)
        housekeeping = Housekeeping(
            Settings(), store, log, cuts, runs, passed=dict, is_over=lambda: False, clock=clock
        )
        return Life(
            clock=clock,
            store=store,
            database=database,
            medium=medium,
            log=log,
            reader=reader,
            runs=runs,
            steps=steps,
            housekeeping=housekeeping,
            schedule=Schedule(),
            tasks={},
            news={},
        )

    # -- the store's and the disk's faults --------------------------------------------------------

    def _committing(self, connection: Connection) -> None:
        if not connection.get_execution_options().get("tocsin_writes"):
            return
        self.commits += 1
        if self.store_full:
            self.around.happened["full store"] += 1
            raise exc.OperationalError("COMMIT", {}, sqlite3.OperationalError(_FULL))
        if self.crash_at_commit is not None:
            self.crash_at_commit -= 1
            if self.crash_at_commit < 0:
                self.around.happened["crash at a commit"] += 1
                raise Crashed

    def _sync_takes(self, delay_s: float) -> None:
        life = self.life
        if life is not None and not life.busy:
            life.busy = True
            try:
                self._wait(delay_s)
            finally:
                life.busy = False

    def _compute(self) -> None:
        self._wait(self.around.query_s())

    def _wait(self, delay_s: float) -> None:
        """What is under way takes its time; the world goes on."""
        incarnation = self.incarnation
        self.around.committed()
        agenda = self.around.agenda
        try:
            agenda.run(agenda.now + delay_s)
        except BrokenPromise as broken:  # the caller may take it for a failure of its own
            self.broken = self.broken or broken
            raise
        if incarnation != self.incarnation:
            raise Crashed

    # -- what it does by itself -------------------------------------------------------------------

    def _soon(self, act: Callable[[Life], object], delay_s: float = 0.01) -> None:
        """Unless the process has died by then. Nothing begins while an fsync is under way."""
        incarnation = self.incarnation

        def begin() -> None:
            if self.incarnation != incarnation or self.life is None:
                return
            if self.life.busy:
                self.around.agenda.later(0.05, begin)
                return
            with suppress(Unavailable):  # it died
                self.enter(act)

        self.around.agenda.later(delay_s, begin)

    def _every(self, period_s: float, act: Callable[[Life], object]) -> None:
        def again(life: Life) -> None:
            self._soon(again, period_s)
            act(life)

        self._soon(again, period_s)

    def _take_up(self, life: Life, channel: Channel) -> None:
        query = CHANNELS[channel.name][1]
        life.runs.add(Prepared(channel, query, PlainSets()))
        backoff = Backoff(self.around.random, first_s=0.2, most_s=2.0)
        life.tasks[channel.name] = Task(channel, backoff)
        if channel.period_s is not None:
            life.schedule.add(channel.name, channel.period_s, channel.created_at, life.clock.now())

    def _look(self, life: Life) -> None:
        """Run what is due, or has news."""
        now = self.around.agenda.now
        for name in life.schedule.due(life.clock.now()):
            life.tasks[name].due = True
        for task in life.tasks.values():
            if task.running or task.retry_at > now:
                continue
            if task.due or (task.channel.period_s is None and life.has_news(task.channel)):
                task.running, task.due = True, False
                self._soon(partial(self._run, task))

    def _run(self, task: Task, life: Life) -> None:
        channel = task.channel
        self.runs_made += 1
        again = False
        try:
            life.steps.take(channel, CHANNELS[channel.name][1], 60.0)
        except Damaged:
            self.failed_runs += 1
            again = True
            self._soon(self._stop_and_repair, 1.0)
        except BrokenPromise:  # of others: the world went on while the run took its time
            raise
        except Exception as error:
            self.failed_runs += 1
            self.overlong += isinstance(error, Overlong)
            again = True
        else:
            task.backoff.reset()
        finally:
            task.running = False
        life.schedule.finished(channel.name)
        if again:
            task.retry_at = self.around.agenda.now + task.backoff.next_s()
            task.due = task.due or channel.period_s is not None
        self._soon(self._look)

    def _stop_and_repair(self, _: Life) -> None:
        """An operator reads that the log is damaged."""
        self.fall(power=False)
        self.repair()

    def _stored(self, channel: Channel, committed: Committed) -> None:
        life = self._life()
        for news in life.news.values():
            news.committed(growths(committed, pushed=channel.push))
            self._soon(partial(self._deliver, news))
            if news.strangers and news.name not in life.looking:
                life.looking.add(news.name)
                self._soon(partial(self._look_up, news), 0.1)

    def wake(self, life: Life) -> None:
        """Something changed that brokers may have to hear of."""
        for news in life.news.values():
            news.ask()
            self._soon(partial(self._deliver, news))

    def _bury(
        self, log: PublicationLog, channel: str, records: Sequence[tuple[Record, str]], cause: str
    ) -> None:
        letters, key = letters_of(channel, records, cause)
        if letters:
            done = log.append(DEAD_LETTERS.name, letters, key)
            log.step()
            done.result()

    def _deliver(self, news: BrokerNews, life: Life) -> None:
        telling = news.begin()
        stored, answer, served = life.store.subscriptions, None, frozenset[int]()
        try:
            if telling.doubtful:
                answer = stored.news(news.name, news.since, heads=False)
            if telling.strangers:
                served = stored.served_by(news.name, list(telling.strangers.of))
        except TocsinError:
            news.put_back(telling)
            self._soon(partial(self._deliver, news), 0.1)
            return
        new, gone = news.finish(telling, answer, served)
        self.around.committed()  # nobody hears of a result before it was seen in the store
        for grown, left in parts(new, gone):
            carried = [NewHead(g.head.backend, g.head.epoch, g.head.head, g.results) for g in grown]
            self.around.notify(news, life.store.shown_id, carried, left)

    def _look_up(self, news: BrokerNews, life: Life) -> None:
        life.looking.discard(news.name)
        news.look()
        self._deliver(news, life)

    # -- what it is asked -------------------------------------------------------------------------

    def know_broker(self, name: str) -> str:
        def put(life: Life) -> str:
            life.store.catalog.put_broker(name, f"http://{name}")
            if name not in life.news:
                life.news[name] = self._new_news(name, life.store)
            life.news[name].begin_anew()
            return life.store.shown_id

        return self.enter(put)

    def publish(
        self,
        dataset: str,
        records: list[bytes],
        key: str,
        answered: Callable[[Future[Appended]], object],
    ) -> None:
        self._life().log.append(dataset, records, key).add_done_callback(answered)
        self._soon(lambda life: life.log.step())

    def subscribe(self, subscriber: str, interest: int, broker: str | None) -> Subscription:
        channel_name, arguments = INTERESTS[interest]

        def put(life: Life) -> Subscription:
            channel = life.store.catalog.channel(channel_name)
            asked_at = self.around.agenda.now - self.around.random.expovariate(5.0)
            since = counts_from(life.ends_at(asked_at), channel)  # others wrote the store since
            subscription, _ = life.store.subscriptions.subscribe(
                subscriber, channel_name, arguments, broker, None, since
            )
            self.wake(life)
            return subscription

        return self.enter(put)


def _forget_elsewhere(life: Life) -> None:
    for news in life.news.values():
        news.elsewhere.clear()
