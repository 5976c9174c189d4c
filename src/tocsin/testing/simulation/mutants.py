"""Bugs that are planted on purpose: a simulation that finds none of them would prove nothing.

Each is a fault that this system had once, or could have, as a small change of the real code for as
long as a block lasts. `hunt` runs worlds of one kind until a checker says that a promise is broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec
from sqlalchemy import text

import tocsin.clock
from tocsin.broker.machine import BrokerMachine
from tocsin.broker.machine.effects import AckedMany
from tocsin.broker.machine.news import News
from tocsin.client.feeds import Feeds
from tocsin.clock import Clock
from tocsin.errors import TocsinError
from tocsin.spark import answering, diagnosis
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.housekeeping import Housekeeping
from tocsin.storage.log.segments import damage
from tocsin.storage.log.segments.dataset import SegmentedDataset
from tocsin.storage.log.segments.keys import Keys
from tocsin.storage.log.writer import PublicationLog
from tocsin.storage.store import incarnation, lease, markers, runs
from tocsin.storage.store.dialect.sqlite import Sqlite
from tocsin.storage.store.incarnation import Incarnation, Seen
from tocsin.storage.store.write import Write
from tocsin.storage.store.writer import Writer
from tocsin.testing.simulation.checkers import BrokenPromise
from tocsin.testing.simulation.disk import SimulatedDisk
from tocsin.testing.simulation.playable import Playable

Plant = Callable[[ExitStack], None]


@dataclass(frozen=True)
class Mutant:
    name: str
    says: str  # what is wrong with it
    kind: str  # of world
    plant: Plant

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            self.plant(stack)
            yield


@dataclass(frozen=True)
class Find:
    """What became of a mutant. `seed` is None if it was not found."""

    mutant: Mutant
    seed: int | None
    broken: str
    seconds: float


def hunt(
    mutant: Mutant,
    worlds: Mapping[str, Callable[[int, Sequence[str]], Playable]],
    *,
    seeds: range,
    happenings: int = 60,
    at_most_s: float = 300.0,
) -> Find:
    """Until a seed finds it, or the time is over."""
    began = time.monotonic()
    with mutant.planted():
        for seed in seeds:
            try:
                worlds[mutant.kind](seed, ()).run(happenings)
            except (BrokenPromise, TocsinError) as error:  # anything else is the mutant's own fault
                broken = f"{type(error).__name__}: {error}"
                return Find(mutant, seed, broken, time.monotonic() - began)
            if time.monotonic() - began > at_most_s:
                break
    return Find(mutant, None, "", time.monotonic() - began)


def _replace(stack: ExitStack, target: Any, name: str, value: Any) -> None:
    stack.enter_context(patch.object(target, name, value))


# -- the publication log --------------------------------------------------------------------------


def _acknowledge_before_sync(stack: ExitStack) -> None:
    def commit(self: SegmentedDataset) -> None:
        data = b"".join(self._staged)
        self._staged.clear()
        if data:
            self._disk.write(self._active(), data)
        self.durable_end = self.written_end
        self.keys.commit()

    _replace(stack, SegmentedDataset, "commit", commit)


def _believe_a_second_sync(stack: ExitStack) -> None:
    """The system has forgotten the bytes, and says nothing."""
    sync = SimulatedDisk.sync

    def again(self: SimulatedDisk, handle: int) -> None:
        try:
            sync(self, handle)
        except OSError:
            sync(self, handle)

    _replace(stack, SimulatedDisk, "sync", again)


def _cut_damage_in_silence(stack: ExitStack) -> None:
    def refuse(self: SegmentedDataset, holes: list[damage.Hole]) -> None:
        return None

    _replace(stack, SegmentedDataset, "_refuse", refuse)


def _forget_keys(stack: ExitStack) -> None:
    _replace(stack, Keys, "find", lambda self, key: None)


def _lose_keys_of_closed_segments(stack: ExitStack) -> None:
    _replace(stack, Keys, "save", lambda self: None)
    init = Keys.__init__

    def fresh(self: Keys, *given: Any) -> None:
        init(self, *given)
        self._known.clear()

    _replace(stack, Keys, "__init__", fresh)


def _forget_the_directory(stack: ExitStack) -> None:
    operate = SimulatedDisk._operate
    _replace(stack, SimulatedDisk, "sync_directory", lambda self, path: operate(self))


def _believe_the_wall(stack: ExitStack) -> None:
    """Clocks of clusters go back when the machine's is set back."""
    _replace(stack, Clock, "now", lambda self: self._wall())


def _go_back_with_the_clock(stack: ExitStack) -> None:
    _believe_the_wall(stack)

    def stamped(self: PublicationLog, item: Any) -> list[Any]:
        from tocsin.storage.log.port import Stamped
        from tocsin.storage.log.writer import _parts

        now_us = int(self._clock() * 1e6)
        return [Stamped(now_us, *_parts(record)) for record in item.records]

    _replace(stack, PublicationLog, "_stamped", stamped)


def _cut_by_the_clock(stack: ExitStack) -> None:
    _believe_the_wall(stack)
    cut = PublicationLog._cut

    def by_clock(self: PublicationLog) -> Any:
        return cut(self)._replace(at_us=int(self._clock() * 1e6))

    _replace(stack, PublicationLog, "_cut", by_clock)


# -- store and runs -------------------------------------------------------------------------------


def _do_not_wait_for_the_store(stack: ExitStack) -> None:
    make = Sqlite.engine

    def engine(self: Sqlite, busy_timeout_s: float) -> Any:
        from sqlalchemy import event

        made = make(self, busy_timeout_s)

        @event.listens_for(made, "connect")
        def configure(connection: Any, _: Any) -> None:
            connection.execute("PRAGMA synchronous = OFF")

        return made

    _replace(stack, Sqlite, "engine", engine)


def _commit_progress_apart(stack: ExitStack) -> None:
    commit = ChannelRuns._commit

    def apart(self: ChannelRuns, prepared: Any, window: Any, *rest: Any) -> None:
        self._store.progress.put(prepared.channel.name, window.upto)
        with patch.object(runs, "_advance", lambda *_: True):  # in a transaction of their own
            commit(self, prepared, window, *rest)

    _replace(stack, ChannelRuns, "_commit", apart)


def _results_without_progress(stack: ExitStack) -> None:
    _replace(stack, runs, "_advance", lambda *_: True)
    _replace(stack, runs, "_is_there", lambda *_: False)


def _pass_what_the_machinery_broke(stack: ExitStack) -> None:
    _replace(stack, ChannelRuns, "run", _passing(ChannelRuns.run))


def _passing(run: Any) -> Any:
    def passing(self: ChannelRuns, name: str, ask: Any) -> None:
        try:
            run(self, name, ask)
        except Exception:
            channel = self._prepared[name].channel
            self._store.progress.put(name, ask.window.upto)
            self._prepared[channel.name].progress = ask.window.upto

    return passing


def _positions_from_memory(stack: ExitStack) -> None:
    """Positions are given again after a crash: heads are raised late, by a transaction more."""
    late: list[Any] = []
    raise_heads = Write.raise_heads

    def raise_later(write: Write, heads: dict[int, int]) -> int:
        for waiting in late:
            raise_heads(write, waiting)
        late[:] = [heads]
        return write.sequence()

    _replace(stack, Write, "raise_heads", raise_later)


def _forget_late_subscribers(stack: ExitStack) -> None:
    _replace(stack, runs, "_refuse_late", lambda *_: None)


def _blame_the_neighbours(stack: ExitStack) -> None:
    """What the query fails on is found, and everything beside it is given up as well."""
    diagnose = diagnosis.diagnose

    def blame(records: Any, sets: Any, fails: Any, *, one_by_one: bool) -> Any:
        verdict = diagnose(records, sets, fails, one_by_one=one_by_one)
        if verdict.records:
            why = next(iter(verdict.records.values()))
            verdict.records = dict.fromkeys(records, why)
        return verdict

    _replace(stack, answering, "diagnose", blame)


def _overlook_a_restoring(stack: ExitStack) -> None:
    _replace(stack, Incarnation, "follow", lambda self, note: False)


def _count_on_from_the_backup(stack: ExitStack) -> None:
    begin = Incarnation.begin

    def count_on(self: Incarnation, note: Seen, **named: bool) -> None:
        with patch.object(incarnation, "GAP", 0):
            begin(self, msgspec.structs.replace(note, counters={}), **named)

    _replace(stack, Incarnation, "begin", count_on)


def _forget_to_pin(stack: ExitStack) -> None:
    _replace(stack, Housekeeping, "_horizon", lambda self, dataset: None)


def _marker_moves_back(stack: ExitStack) -> None:
    put = markers.put

    def back(connection: Any, wanted: Any, *rest: Any) -> Any:
        for number, _, position in wanted:
            connection.execute(
                text("UPDATE frontend_subscriptions SET marker = :at WHERE id = :id"),
                {"at": max(0, position - 1), "id": number},
            )
        return put(connection, [], *rest)

    _replace(stack, markers, "put", back)


def _stand_still(stack: ExitStack) -> None:
    """It waits for the machine's clock instead of going on slowly."""
    _replace(stack, tocsin.clock, "CATCHING_UP", 0.0)


# -- leases ---------------------------------------------------------------------------------------


def _act_too_long(stack: ExitStack) -> None:
    _replace(stack, lease, "HELD", 1.6)


def _take_too_early(stack: ExitStack) -> None:
    _replace(stack, lease.Watch, "lapsed", lambda self, terms: terms is not None)


def _write_without_a_fence(stack: ExitStack) -> None:
    def replace(self: Writer, connection: Any, fence: str) -> None:
        connection.execute(
            text("UPDATE meta SET value = :fence WHERE name = 'writer'"), {"fence": fence}
        )

    _replace(stack, Writer, "_replace_fence", replace)
    _replace(stack, Writer, "_settle", lambda self, connection: None)


# -- notices and brokers --------------------------------------------------------------------------


def _never_ask_for_news(stack: ExitStack) -> None:
    """A notice that is lost stays lost."""
    from tocsin.broker.machine.effects import AskNews

    tick = BrokerMachine.tick

    def silent(self: BrokerMachine, now: float) -> Any:
        return [effect for effect in tick(self, now) if not isinstance(effect, AskNews)]

    _replace(stack, BrokerMachine, "tick", silent)


def _stay_with_the_old_store(stack: ExitStack) -> None:
    registered = BrokerMachine.registered

    def stay(self: BrokerMachine, call: int, store_id: str, now: float) -> Any:
        return registered(self, call, self.store_id or store_id, now)

    _replace(stack, BrokerMachine, "registered", stay)


def _miss_what_left_early(stack: ExitStack) -> None:
    """An answer to a question that was asked before anything was loaded stands for good."""
    again_from = News.again_from

    def forget(self: News, sequence: int | None) -> None:
        if sequence is not None:
            again_from(self, sequence)

    _replace(stack, News, "again_from", forget)


# -- clients and their frames ---------------------------------------------------------------------


def _confirm_too_early(stack: ExitStack) -> None:
    """What is acknowledged together is confirmed when it came, not when it is durable."""
    ack_many = BrokerMachine.ack_many

    def early(self: BrokerMachine, subscriber: str, given: Any, now: float, connection: int) -> Any:
        return [*ack_many(self, subscriber, given, now, connection), AckedMany(connection, given)]

    _replace(stack, BrokerMachine, "ack_many", early)


def _lose_the_last(stack: ExitStack) -> None:
    ack_many = BrokerMachine.ack_many

    def lose(self: BrokerMachine, subscriber: str, given: Any, *rest: Any) -> Any:
        return ack_many(self, subscriber, list(given)[:-1], *rest)

    _replace(stack, BrokerMachine, "ack_many", lose)


def _look_once(stack: ExitStack) -> None:
    """What a feed had no room for is not asked for when it has."""
    _replace(stack, Feeds, "take", lambda self, feed: feed.take())


MUTANTS = [
    Mutant("early-ack", "publications are acknowledged before they are synced", "cluster",
           _acknowledge_before_sync),
    Mutant("sync-again", "a sync that succeeds after one that failed is believed", "cluster",
           _believe_a_second_sync),
    Mutant("silent-cut", "a damaged log is cut without a word", "cluster", _cut_damage_in_silence),
    Mutant("no-keys", "a publication that is sent again is taken again", "cluster", _forget_keys),
    Mutant("lost-keys", "keys are forgotten when a segment is closed", "cluster",
           _lose_keys_of_closed_segments),
    Mutant("no-directory-sync", "names of new segments are not synced", "cluster",
           _forget_the_directory),
    Mutant("clock-stamps", "records are stamped by a clock that may be set back", "cluster",
           _go_back_with_the_clock),
    Mutant("clock-cuts", "windows end where the clock says", "cluster", _cut_by_the_clock),
    Mutant("unsynced-store", "the store does not wait for the disk", "cluster",
           _do_not_wait_for_the_store),
    Mutant("progress-apart", "progress is committed apart from results", "cluster",
           _commit_progress_apart),
    Mutant("no-progress", "results are stored whatever another run has stored", "cluster",
           _results_without_progress),
    Mutant("past-failures", "a run moves past records when the machinery fails", "cluster",
           _pass_what_the_machinery_broke),
    Mutant("reused-positions", "positions of results are given twice", "cluster",
           _positions_from_memory),
    Mutant("frozen-schedule", "repetitive channels stand still while the clock is behind",
           "cluster", _stand_still),
    Mutant("late-subscribers", "who subscribes while a run is under way is not asked for",
           "cluster", _forget_late_subscribers),
    Mutant("wrong-blame", "records beside one that a query fails on are given up too", "cluster",
           _blame_the_neighbours),
    Mutant("no-incarnation", "a store that was restored goes on as if it had not been", "cluster",
           _overlook_a_restoring),
    Mutant("reused-numbers", "a restored store gives out numbers that the lost one gave out",
           "cluster", _count_on_from_the_backup),
    Mutant("no-pins", "compaction takes rows that a run still reads", "cluster", _forget_to_pin),
    Mutant("marker-back", "a marker moves back", "cluster", _marker_moves_back),
    Mutant("long-lease", "a holder acts longer than its lease lasts", "leases", _act_too_long),
    Mutant("impatient", "a store is taken over from a holder that lives", "leases",
           _take_too_early),
    Mutant("no-fence", "who was replaced goes on writing", "leases", _write_without_a_fence),
    Mutant("lost-notices", "a notice that is lost is never asked for", "cluster",
           _never_ask_for_news),
    Mutant("missed-departure", "who came before a broker had loaded is served after they left",
           "cluster", _miss_what_left_early),
    Mutant("early-confirmation", "acknowledgements are confirmed before they are durable",
           "channels", _confirm_too_early),
    Mutant("lost-acknowledgement", "of what is acknowledged together the last is lost", "channels",
           _lose_the_last),
    Mutant("no-second-look", "a client never asks for what it had no room for", "channels",
           _look_once),
    Mutant("old-store", "a broker stays with a store that was replaced", "channels",
           _stay_with_the_old_store),
]  # fmt: skip
