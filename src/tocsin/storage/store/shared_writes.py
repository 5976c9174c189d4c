"""Transactions that need no claim on the store, over connections of their own.

They touch what `SharedWrite` can touch and nothing else, in the order that `write` says, and each
finds out by itself whether what it stores is still to be stored: no fence refuses it. The work is
repeated when a connection or a lock took it back, and when nobody knows whether it was committed;
so it looks at what it left there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from tocsin.storage.store.database import Database
from tocsin.storage.store.write import SharedWrite

T = TypeVar("T")


class SharedWrites:
    """Safe to call from any thread; each that writes has a connection."""

    def __init__(self, database: Database, idle_s: float) -> None:
        """`idle_s`: a session that says nothing for so long in a transaction is ended by the
        server, since others may wait for its locks."""
        self._database = database
        self._idle_s = idle_s

    def write(self, work: Callable[[SharedWrite], T]) -> T:
        """What has one writer at a time (SQLite) has this one wait for its turn."""
        if not self._database.dialect.many_write:
            return self._database.write(work)
        return self._database.share(lambda connection: work(self._begun(connection)), self._prepare)

    def _begun(self, connection: Connection) -> SharedWrite:
        return SharedWrite(connection, self._database.dialect, self._database.now())

    def _prepare(self, connection: Connection) -> None:
        dialect = self._database.dialect
        dialect.make_writer(connection, self._database.busy_timeout_s)
        dialect.end_when_idle(connection, self._idle_s)
