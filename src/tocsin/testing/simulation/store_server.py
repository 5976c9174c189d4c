"""A database server for the store of simulated clusters on several hosts: SQLite's file behind
sessions. One keeps its claim for as long as the server believes in it, which may be long after its
host was lost; a host may be cut off, and an answer to a commit be lost.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, exc

from tocsin.storage.store.dialect.contract import Kind, Trouble
from tocsin.testing.simulation.store_file import StoreFile

_LOST = "the server does not answer"


@dataclass
class StoreServer:
    path: Path
    claimed: int | None = None  # by this session
    cut_off: set[str] = field(default_factory=set)  # hosts
    answers_to_lose: int = 0
    answers_lost: int = 0
    _sessions: dict[int, tuple[str, Any]] = field(default_factory=dict)
    _opened: int = 0

    def open(self, host: str, driver: Any) -> None:
        if host in self.cut_off:
            raise lost()
        self._opened += 1
        self._sessions[self._opened] = host, driver

    def session(self, host: str, driver: Any) -> int:
        """Its number, if the server is reached and believes in it."""
        known = (n for n, (_, theirs) in self._sessions.items() if theirs is driver)
        number = next(known, None)
        if number is None or host in self.cut_off:
            raise lost()
        return number

    def claim(self, number: int) -> bool:
        if self.claimed is not None and self._is_over(self.claimed):
            self.end(self.claimed)
        if self.claimed in (None, number):
            self.claimed = number
        return self.claimed == number

    def end(self, number: int) -> None:
        self._sessions.pop(number, None)
        if self.claimed == number:
            self.claimed = None

    def hang_up(self, host: str) -> None:
        """All its processes are gone, and the server hears of it."""
        for number in [n for n, (theirs, _) in self._sessions.items() if theirs == host]:
            self.end(number)

    def _is_over(self, number: int) -> bool:
        """Whether the other end closed it."""
        try:
            self._sessions[number][1].execute("SELECT 1")
        except sqlite3.ProgrammingError:
            return True
        return False


def lost() -> exc.OperationalError:
    return exc.OperationalError("", {}, sqlite3.OperationalError(_LOST))


class ServerDialect(StoreFile):
    """The server, as it is seen from a host."""

    leased = True
    server: StoreServer
    host: str

    @classmethod
    def of(cls, server: StoreServer, host: str) -> ServerDialect:
        dialect = cls.at(server.path)
        dialect.server, dialect.host = server, host
        return dialect

    def engine(self, busy_timeout_s: float) -> Engine:
        engine = super().engine(busy_timeout_s)
        event.listen(engine, "connect", lambda driver, _: self.server.open(self.host, driver))
        event.listen(engine, "checkout", lambda driver, *_: self._let_go(driver))
        event.listen(engine, "before_cursor_execute", lambda connection, *_: self._ask(connection))
        event.listen(engine, "commit", self._commit)
        return engine

    def quick_engine(self, within_s: float) -> Engine:
        return self.engine(within_s)

    def claim(self, connection: Connection) -> bool:
        return self.server.claim(self._ask(connection))

    def claimant(self, connection: Connection) -> int | None:
        self._ask(connection)
        return self.server.claimed

    def session(self, connection: Connection) -> int | None:
        return self._ask(connection)

    def end_session(self, connection: Connection, number: int) -> None:
        self._ask(connection)
        self.server.end(number)

    def trouble(self, error: Exception) -> Trouble:
        return Trouble(Kind.LOST, _LOST) if _LOST in str(error) else super().trouble(error)

    def _ask(self, connection: Connection) -> int:
        return self.server.session(self.host, connection.connection.dbapi_connection)

    def _let_go(self, driver: Any) -> None:
        """Of a session that has ended: the pool opens another."""
        try:
            self.server.session(self.host, driver)
        except exc.OperationalError as error:
            raise exc.DisconnectionError(_LOST) from error

    def _commit(self, connection: Connection) -> None:
        self._ask(connection)
        if self.server.answers_to_lose:
            self.server.answers_to_lose -= 1
            self.server.answers_lost += 1
            driver: Any = connection.connection.dbapi_connection
            driver.execute("COMMIT")
            raise lost()
