"""The store: everything durable of a data cluster except its publication log and data files.

Puts the parts together; each part is a module of its own. Safe to call from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from sqlalchemy import Connection

from tocsin.errors import TocsinError
from tocsin.storage.identity import Mark
from tocsin.storage.store.catalog import Catalog
from tocsin.storage.store.database import Database, current_sequence, reads
from tocsin.storage.store.deliveries import Deliveries
from tocsin.storage.store.feeds import Feeds
from tocsin.storage.store.files import DatasetFiles
from tocsin.storage.store.gaps import Gaps
from tocsin.storage.store.grants import Grants
from tocsin.storage.store.matches import Matches
from tocsin.storage.store.progress import ChannelProgress
from tocsin.storage.store.results import Results
from tocsin.storage.store.revocation import Revocation
from tocsin.storage.store.runs import Runs
from tocsin.storage.store.subscriptions import Subscriptions


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.id = database.id
        self.mark = Mark(database.id, database.shown)
        self.grants = Grants(database)
        self.catalog = Catalog(database, self.grants)
        self.subscriptions = Subscriptions(database, self.grants)
        self.revocation = Revocation(database, self.grants, self.subscriptions)
        self.runs = Runs(database)
        self.progress = ChannelProgress(database)
        self.gaps = Gaps(database)
        self.matches = Matches(database)
        self.results = Results(database)
        self.deliveries = Deliveries(database)
        self.files = DatasetFiles(database)
        self.gaps = Gaps(database)
        self.feeds = Feeds(database)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        busy_timeout_s: float = 10.0,
        patience_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open the store at an address such as sqlite:///data/store.db; create it if need be.

        Another writer, or a lock of another program, is waited for up to `busy_timeout_s`. An
        outage that is shorter than `patience_s` only delays; a longer one is an error.
        """
        return cls(Database(url, busy_timeout_s=busy_timeout_s, patience_s=patience_s, clock=clock))

    @property
    def waits_for(self) -> str | None:
        """Why the store cannot be reached now; None: it can."""
        return self._database.breaker.waits_for

    @property
    def risk(self) -> str | None:
        """How the database is set to lose what it acknowledged at a power cut; None: it is not."""
        return self._database.risk

    def on_end(self, notify: Callable[[TocsinError], None]) -> None:
        """Have `notify` called, on any thread, when another cluster has taken the store over."""
        self._database.breaker.on_end = notify

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
