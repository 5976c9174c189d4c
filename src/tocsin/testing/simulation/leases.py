"""A world of hosts that all want the one store on a database server: the real writer, lease and
circuit breaker, in virtual time.

Hosts die, or are lost while the server believes in them; they freeze, are cut off, and have clocks
that run unevenly. Whoever holds the store writes to it, which the fence guards, and acts outside of
it, which the lease alone guards.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from sqlalchemy import insert, select
from structlog.testing import capture_logs

from tocsin.errors import Conflict, TocsinError, Unavailable
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write
from tocsin.storage.store.pace import Act, Pause
from tocsin.testing.simulation.agenda import Action, Agenda
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.memory import in_memory
from tocsin.testing.simulation.store_server import ServerDialect, StoreServer

LEASE_S = 5.0
UNEVEN = 0.1  # of a host's steady clock, at most
WORK_S = 0.3
HEALING_S = 90.0
_meta = schema.meta


class Gone(BaseException):
    """The process is no more. Nothing in it may handle this."""


class Host:
    """A process that runs where the store is not, and its pace."""

    def __init__(self, world: LeaseWorld, name: str) -> None:
        self.name = name
        self.database: Database | None = None
        self.incarnation = 0
        self.frozen_until = 0.0
        self._world = world
        self._rate = 1.0 + world.random.uniform(-UNEVEN, UNEVEN)
        self._starting = False

    # -- its pace ---------------------------------------------------------------------------------

    def now(self) -> float:
        return self._world.agenda.now * self._rate

    def sleep(self, seconds: float) -> None:
        incarnation, agenda = self.incarnation, self._world.agenda
        agenda.run(agenda.now + seconds / self._rate)
        while incarnation == self.incarnation and agenda.now < self.frozen_until:
            agenda.run(self.frozen_until)
        if incarnation != self.incarnation:
            raise Gone

    def repeat(self, name: str, first_s: float, act: Act, pause: Pause) -> None:
        def again() -> None:
            wait_s = act()
            if wait_s is not None:
                self._later(wait_s, again)

        self._later(first_s, again)

    def _later(self, seconds: float, do: Action) -> None:
        """Unless it is gone by then, or as soon as it goes on."""
        incarnation, agenda = self.incarnation, self._world.agenda

        def begin() -> None:
            if incarnation != self.incarnation:
                return
            if agenda.now < self.frozen_until:
                agenda.at(self.frozen_until, begin)
            else:
                with suppress(Gone):
                    do()

        agenda.later(seconds / self._rate, begin)

    # -- its life ---------------------------------------------------------------------------------

    def start(self) -> None:
        if self.database is None and not self._starting:
            self._starting = True
            self._later(0.0, self._open)

    def _open(self) -> None:
        dialect, clock = ServerDialect.of(self._world.server, self.name), self.now
        try:
            self.database = Database(
                dialect,
                busy_timeout_s=2 * LEASE_S,
                patience_s=0.0,
                lease_s=LEASE_S,
                clock=clock,
                pace=self,
            )
        except (Conflict, Unavailable):  # another has it, or the server is not reached
            self._starting = False
            self._later(1.0, self.start)
            return
        self._starting = False
        self.database.breaker.on_end = lambda error: self._later(0.0, self._give_up)
        self._work()

    def _give_up(self) -> None:
        """Another has the store. Somebody starts it again."""
        self.fall()
        self.start()

    def fall(self) -> None:
        self.incarnation += 1
        self.frozen_until = 0.0
        self._starting = False
        database, self.database = self.database, None
        if database is not None:
            self._world.abandoned.append(database)

    # -- what it does -----------------------------------------------------------------------------

    def _work(self) -> None:
        database = self.database
        assert database is not None
        with suppress(TocsinError):
            number, value = database.write(partial(self._write, database))
            self._world.acknowledged[number] = value
        if database.lease.held:
            self._world.acted(self.name, database.lease.number)
        self._later(WORK_S, self._work)

    def _write(self, database: Database, write: Write) -> tuple[int, str]:
        (number,) = write.take_ids("backend", 1)
        value = f"{database.lease.number} {self.name}"
        write.connection.execute(insert(_meta), {"name": f"work-{number}", "value": value})
        return number, value


class LeaseWorld:
    def __init__(self, seed: int, policies: Sequence[str] = ()) -> None:
        """It has no caches, and so no policies."""
        self.random = Random(seed)
        self.agenda = Agenda()
        self.directory = Path(tempfile.mkdtemp(prefix="tocsin-simulation-", dir=in_memory()))
        self.server = StoreServer(self.directory / "store.db")
        self.happened: Counter[str] = Counter()
        self.acknowledged: dict[int, str] = {}  # writes
        self.abandoned: list[Database] = []  # of processes that are gone
        self.acts = 0
        self.gaps = 0
        self.lease_number = 0  # of whoever acted last
        self.hosts = [Host(self, f"host-{n}") for n in range(self.random.choice([2, 2, 3]))]

    @property
    def delivered(self) -> int:
        return len(self.acknowledged)

    def acted(self, host: str, number: int) -> None:
        """Outside of the store, where no fence refuses it."""
        self.acts += 1
        late = f"{host} acts by lease {number} after lease {self.lease_number} was acted by"
        promise(number >= self.lease_number, late)
        self.lease_number = number

    def run(self, happenings: int) -> None:
        try:
            with capture_logs():
                self._run(happenings)
        finally:
            for host in self.hosts:
                host.fall()
            for database in self.abandoned:
                database.engine.dispose()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, happenings: int) -> None:
        for host in self.hosts:
            host.start()
        for _ in range(happenings):
            self.agenda.run(self.agenda.now + self.random.expovariate(0.5))
            self._happen(self.random.choice(self.hosts))
        self._quieten()

    def _happen(self, host: Host) -> None:
        kind = self.random.choice(["kill", "lose", "freeze", "cut off", "lost answer", "calm"])
        if kind in ("kill", "lose"):
            host.fall()
            if kind == "kill":
                self.server.hang_up(host.name)
            self.agenda.later(self.random.expovariate(0.3), host.start)
        elif kind == "freeze":
            host.frozen_until = self.agenda.now + self.random.expovariate(0.15)
        elif kind == "cut off":
            self.server.cut_off.add(host.name)
            heal = partial(self.server.cut_off.discard, host.name)
            self.agenda.later(self.random.expovariate(0.2), heal)
        elif kind == "lost answer":
            self.server.answers_to_lose = 1
        self.happened[kind] += 1

    def _quieten(self) -> None:
        """No more faults: somebody has the store, and can write."""
        self.server.cut_off.clear()
        self.server.answers_to_lose = 0
        for host in self.hosts:
            host.frozen_until = 0.0
            host.start()
        until, done = self.agenda.now + HEALING_S, len(self.acknowledged)
        while self.agenda.now < until and len(self.acknowledged) == done:
            self.agenda.run(self.agenda.now + 1.0)
        promise(len(self.acknowledged) > done, "nobody has the store, and nobody takes it")
        self._check_written()

    def _check_written(self) -> None:
        holder = next(host.database for host in self.hosts if host.database is not None)
        names = select(_meta.c.name, _meta.c.value).where(_meta.c.name.startswith("work-"))
        rows = holder.read(lambda connection: connection.execute(names).all())
        written = {int(name.removeprefix("work-")): str(value) for name, value in rows}
        for number, value in self.acknowledged.items():
            there = written.get(number)
            promise(
                there == value, f"write {number} of {value!r} was acknowledged, {there!r} it is"
            )
        numbers = [int(written[number].split()[0]) for number in sorted(written)]
        promise(numbers == sorted(numbers), f"who had lost the store wrote again: {numbers}")
