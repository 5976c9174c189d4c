"""SQLite: a file, one writer, no server."""

from __future__ import annotations

import fcntl
import os
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, exc, text

from tocsin.errors import SettingError
from tocsin.service.disks import full_disks
from tocsin.storage.store.dialect.contract import (
    FIELD,
    Dialect,
    Kind,
    References,
    Rows,
    TextColumns,
    Trouble,
)

_WRITES = "tocsin_writes"
_VALUES_AT_ONCE = 2000  # of one statement: SQLite bounds them

_IS_FULL, _IO = "is full", "disk i/o"
_HINTS = {
    "is locked": "another process holds the store; stop it, or try again",
    _IS_FULL: "free some disk space; nothing of this request was written",
    "readonly": "give this user the right to write the store's file and directory",
    _IO: "check the disk; nothing of this request was written",
    "malformed": "the store's file is damaged; restore it from a backup",
}
_NOT_OURS = ("not a database", "unable to open")


class Sqlite(Dialect):
    leased = False  # the system's lock on a file is there exactly as long as the process
    many_write = False
    locking = ""
    _claimed: int | None = None

    def engine(self, busy_timeout_s: float) -> Engine:
        if self.url.database in (None, "", ":memory:"):
            raise SettingError(
                "a store in memory would forget what it acknowledged",
                field=FIELD,
                hint="name a file: sqlite:///data/store.db",
            )
        if not self._file.parent.is_dir():
            raise SettingError(
                f"cannot open the store {self}: the directory {self._file.parent} does not exist",
                field=FIELD,
                hint="create the directory first",
            )
        engine = self._new_engine()

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # the driver must not begin transactions by itself
            for pragma in (
                f"busy_timeout = {int(busy_timeout_s * 1000)}",
                "journal_mode = WAL",
                "synchronous = FULL",  # in WAL mode NORMAL may lose the last commits at a power cut
                "foreign_keys = ON",
                "cache_size = -65536",
                "wal_autocheckpoint = 4000",
                "journal_size_limit = 67108864",
            ):
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            # A transaction that reads first and then writes cannot wait for another writer: SQLite
            # would refuse it at once. So writers say so when they begin.
            writes = connection.get_execution_options().get(_WRITES, False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def _new_engine(self) -> Engine:
        return create_engine(self.url, pool_size=8, max_overflow=56)

    def make_writer(self, connection: Connection, busy_timeout_s: float) -> None:
        connection.execution_options(**{_WRITES: True})

    def claim(self, connection: Connection) -> bool:
        """By a file beside the store, since SQLite's own locks last for a transaction only. The
        system frees it when the process dies."""
        handle = os.open(f"{self._file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._claimed = handle
        return True

    def release(self) -> None:
        if self._claimed is not None:
            os.close(self._claimed)
            self._claimed = None

    def trouble(self, error: Exception) -> Trouble:
        assert isinstance(error, exc.DBAPIError)
        reason = str(error.orig)
        if any(part in reason for part in _NOT_OURS):
            hint = (
                "name a file of the store, or one that does not exist yet in a directory that does"
            )
            return Trouble(Kind.REFUSED, reason, hint)
        if isinstance(error, exc.IntegrityError | exc.DataError | exc.ProgrammingError):
            return Trouble(Kind.BROKEN, reason)
        if _IO in reason.lower() and full_disks([self.directory]):
            reason = f"{reason}: the disk {_IS_FULL}"  # it is not always told so
        hints = (hint for part, hint in _HINTS.items() if part in reason.lower())
        return Trouble(Kind.BUSY, reason, next(hints, "try again"))

    def compare_by_code_point(
        self, connection: Connection, tables: TextColumns, references: References
    ) -> None:
        """SQLite does so by itself."""

    def last_id(self, connection: Connection, table: str) -> int:
        query = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
        return int(connection.execute(query, {"name": table}).scalar() or 0)

    def advance(self, connection: Connection, counters: Table, name: str, by: int) -> int:
        grown = f"UPDATE {counters.name} SET value = value + {by:d}"  # noqa: S608
        query = f"{grown} WHERE name = '{name}' RETURNING value"
        return int(connection.exec_driver_sql(query).scalar_one())

    def insert_many(
        self, connection: Connection, table: Table, columns: tuple[str, ...], rows: Rows
    ) -> None:
        """The driver lets other threads go on before each row of `executemany`, and then waits for
        them: where others are busy, that costs more than the row. So many go in by one step."""
        at_once = max(1, _VALUES_AT_ONCE // len(columns))
        for start in range(0, len(rows), at_once):
            chunk = rows[start : start + at_once]
            flat = tuple(chain.from_iterable(chunk))
            connection.exec_driver_sql(_insert(table.name, columns, len(chunk)), flat)

    @property
    def directory(self) -> Path:  # type: ignore[override]
        return self._file.parent

    @property
    def _file(self) -> Path:
        return Path(str(self.url.database)).absolute()


@lru_cache
def _insert(table: str, columns: tuple[str, ...], rows: int) -> str:
    values = ",".join([f"({','.join('?' * len(columns))})"] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608
