"""The store: everything durable of a data cluster except its publication log and data files.

Puts the parts together; each part is a module of its own. Safe to call from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, insert, select, update

from tocsin.clock import ClockMark
from tocsin.errors import TocsinError
from tocsin.storage.identity import Mark
from tocsin.storage.store import schema
from tocsin.storage.store.catalog import Catalog
from tocsin.storage.store.database import Database, Write, current_sequence, reads, writes
from tocsin.storage.store.deliveries import Deliveries
from tocsin.storage.store.feeds import Feeds
from tocsin.storage.store.files import DatasetFiles
from tocsin.storage.store.gaps import Gaps
from tocsin.storage.store.grants import Grants
from tocsin.storage.store.incarnation import Incarnation, Seen
from tocsin.storage.store.lease import LEASE_S
from tocsin.storage.store.matches import Matches
from tocsin.storage.store.progress import ChannelProgress
from tocsin.storage.store.quotas import Quotas
from tocsin.storage.store.results import Results
from tocsin.storage.store.revocation import Revocation
from tocsin.storage.store.runs import Runs
from tocsin.storage.store.shared_writes import SharedWrites
from tocsin.storage.store.standby import Standby
from tocsin.storage.store.subscriptions import Subscriptions

_meta = schema.meta
_CLOCK = _meta.c.name == "clock"
_TABLES = _meta.c.name == schema.META_TABLES


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.id = database.id
        self.lease = database.lease
        self.incarnation = Incarnation(database)
        self.shown_id = self.incarnation.name  # by which brokers and clients know it
        self.mark = Mark(database.id, database.shown)
        self.grants = Grants(database)
        self.catalog = Catalog(database, self.grants)
        self.quotas = Quotas(database)
        self.subscriptions = Subscriptions(database, self.grants, self.quotas)
        self.revocation = Revocation(database, self.grants, self.quotas, self.subscriptions)
        self.runs = Runs(database)
        self.progress = ChannelProgress(database)
        self.gaps = Gaps(database)
        self.matches = Matches(database, SharedWrites(database, database.lease.length_s))
        self.results = Results(database)
        self.deliveries = Deliveries(database)
        self.files = DatasetFiles(database)
        self.feeds = Feeds(database)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        busy_timeout_s: float = 10.0,
        patience_s: float = 10.0,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        address: str = "",
        standby: Standby | None = None,
    ) -> Self:
        """Open the store at an address such as sqlite:///data/store.db; create it if need be.

        Another writer, or a lock of another program, is waited for up to `busy_timeout_s`. An
        outage that is shorter than `patience_s` only delays; a longer one is an error. A holder
        that renews no lease for `lease_s` is lost, and another takes the store over. `address` is
        where this holder is called. A `standby` waits for another holder until it has the store.
        """
        database = Database(
            url,
            busy_timeout_s=busy_timeout_s,
            patience_s=patience_s,
            lease_s=lease_s,
            clock=clock,
            address=address,
            standby=standby,
        )
        try:
            return cls(database)
        except BaseException:
            database.close()
            raise

    @property
    def waits_for(self) -> str | None:
        """Why the store cannot be reached now; None: it can."""
        return self._database.breaker.waits_for

    @property
    def directory(self) -> Path | None:
        """Where its file lies, if it has one."""
        return self._database.directory

    @property
    def risk(self) -> str | None:
        """How the database is set to lose what it acknowledged at a power cut; None: it is not."""
        return self._database.risk

    def on_end(self, notify: Callable[[TocsinError], None]) -> None:
        """Have `notify` called, on any thread, when another cluster has taken the store over."""
        self._database.breaker.on_end = notify

    def now(self) -> float:
        """The time by which what is written down is stamped."""
        return self._database.now()

    def follow(self, note: Seen | None) -> bool:
        """Begin a new incarnation if the store was further once than it is; whether it was."""
        restored = self.incarnation.follow(note)
        self.shown_id = self.incarnation.name
        return restored

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Stamp by this clock from now on."""
        self._database.use_clock(clock)

    @reads
    def clock_mark(self, connection: Connection) -> ClockMark | None:
        return read_clock_mark(connection)

    @writes
    def put_clock_mark(self, write: Write, mark: ClockMark) -> None:
        put = update(_meta).where(_CLOCK).values(value=mark.encode())
        if write.connection.execute(put).rowcount == 0:
            write.connection.execute(insert(_meta), {"name": "clock", "value": mark.encode()})

    @reads
    def tables(self, connection: Connection) -> str:
        """Where the Delta tables of its datasets lie; nothing: it has none."""
        return connection.execute(select(_meta.c.value).where(_TABLES)).scalar() or ""

    @writes
    def put_tables(self, write: Write, address: str) -> None:
        put = update(_meta).where(_TABLES).values(value=address)
        if write.connection.execute(put).rowcount == 0:
            write.connection.execute(insert(_meta), {"name": schema.META_TABLES, "value": address})

    @reads
    def sequence(self, connection: Connection) -> int:
        """The number of the last commit that may concern brokers."""
        return current_sequence(connection)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_clock_mark(connection: Connection) -> ClockMark | None:
    text = connection.execute(select(_meta.c.value).where(_CLOCK)).scalar()
    return None if text is None else ClockMark.decode(text)
