"""The store as a process uses it that has no claim: it reads, and stores matches.

It makes and upgrades nothing: that is the leader's. A store of another schema version is waited
for, since the leader and this process are upgraded one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from sqlalchemy import select

from tocsin.clock import ClockMark
from tocsin.errors import Unavailable
from tocsin.storage.store import schema, upgrades
from tocsin.storage.store.database import Database, identity
from tocsin.storage.store.dialect import FIELD
from tocsin.storage.store.matches import Matches
from tocsin.storage.store.shared_writes import SharedWrites
from tocsin.storage.store.store import read_clock_mark

_VERSION = select(schema.meta.c.value).where(schema.meta.c.name == "schema_version")


class JoinedDatabase(Database):
    def require_version(self) -> None:
        """Raise Unavailable unless the store is one of ours, and of this version."""
        with self._engine.connect() as connection:
            if not upgrades.is_store(connection, self.dialect):
                raise Unavailable(
                    f"there is no store in {self.shown} yet",
                    field=FIELD,
                    hint="start the cluster: it makes the store",
                )
            with connection.begin():
                version = connection.execute(_VERSION).scalar()
        if version != str(schema.SCHEMA_VERSION):
            raise Unavailable(
                f"the store {self.shown} has schema version {version}, and this Tocsin"
                f" {schema.SCHEMA_VERSION}",
                field=FIELD,
                hint="use the same version of Tocsin for this process and for the cluster",
            )

    def _begin(self) -> tuple[str, int]:
        self.require_version()
        return self.read(identity)

    def _come_back(self) -> None:
        try:
            self.require_version()
        except self.dialect.errors as error:
            raise self._unavailable(self.dialect.trouble(error)) from error


class JoinedStore:
    def __init__(self, database: JoinedDatabase, idle_s: float) -> None:
        self._database = database
        self.matches = Matches(database, SharedWrites(database, idle_s))

    @classmethod
    def open(cls, url: str, *, lease_s: float, busy_timeout_s: float = 10.0) -> Self:
        """Unavailable while there is no such store, or none of this version."""
        return cls(JoinedDatabase(url, busy_timeout_s=busy_timeout_s), lease_s)

    def clock_mark(self) -> ClockMark | None:
        return self._database.read(read_clock_mark)

    def use_clock(self, clock: Callable[[], float]) -> None:
        """Date results by this clock."""
        self._database.use_clock(clock)

    def close(self) -> None:
        self._database.close()
