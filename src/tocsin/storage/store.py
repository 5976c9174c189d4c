"""The store: everything durable of a data cluster except its publication log and data files.

Puts the parts together; each part is a module of its own. Safe to call from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tocsin.storage.catalog import Catalog
from tocsin.storage.database import Database, current_sequence
from tocsin.storage.deliveries import Deliveries
from tocsin.storage.feeds import Feeds
from tocsin.storage.files import DatasetFiles
from tocsin.storage.matches import Matches
from tocsin.storage.results import Results
from tocsin.storage.runs import Runs
from tocsin.storage.subscriptions import Subscriptions


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.id = database.id
        self.catalog = Catalog(database)
        self.subscriptions = Subscriptions(database)
        self.runs = Runs(database)
        self.matches = Matches(database)
        self.results = Results(database)
        self.deliveries = Deliveries(database)
        self.files = DatasetFiles(database)
        self.feeds = Feeds(database)

    @classmethod
    def open(
        cls, url: str, *, busy_timeout_s: float = 10.0, clock: Callable[[], float] = time.time
    ) -> Self:
        """Open the store at an address such as sqlite:///data/store.db; create it if need be."""
        return cls(Database(url, busy_timeout_s=busy_timeout_s, clock=clock))

    def sequence(self) -> int:
        """The number of the last commit that brokers may have to hear of."""
        with self._database.read() as connection:
            return current_sequence(connection)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
