"""PostgreSQL, through psycopg."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, cast

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, Table, create_engine, exc, func, select, text

from tocsin.storage.store.dialect.contract import (
    Dialect,
    Kind,
    References,
    Rows,
    TextColumns,
    Trouble,
    see_each_commit,
)
from tocsin.storage.store.numbers import given

# A server that vanished without a word is noticed within a minute. An address may say otherwise.
_OPTIONS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}

_COPIED = 100  # so many rows at once are copied; fewer are inserted

_LOGIN = "correct user and password in the setting store, or the server's pg_hba.conf"
_DATABASE = "create the database, or name another in the setting store"
_RIGHTS = "let this user create and change tables there: GRANT ALL ON SCHEMA … TO …"
_TLS = "correct sslmode and the certificates that the setting store names, or the server's"

# By the beginning of SQLSTATE; the longest that fits counts.
_STATES = {
    "08": (Kind.LOST, ""),
    "57P": (Kind.LOST, ""),
    "25P03": (Kind.LOST, ""),
    "53300": (Kind.LOST, "raise the server's max_connections, or let others use fewer"),
    "40001": (Kind.AGAIN, ""),
    "40P01": (Kind.AGAIN, ""),
    "28": (Kind.REFUSED, _LOGIN),
    "3D": (Kind.REFUSED, _DATABASE),
    "3F": (Kind.REFUSED, "create the schema that the setting store names"),
    "42501": (Kind.REFUSED, _RIGHTS),
    "25006": (Kind.BUSY, "the server is read-only; name the one that may be written"),
    "53100": (Kind.BUSY, "free some disk space; nothing of this request was written"),
    "53": (Kind.BUSY, "the server is short of memory; nothing of this request was written"),
    "55P03": (Kind.BUSY, "another session has locked the store; end it, or try again"),
    "57014": (Kind.BUSY, "somebody stopped the statement; try again"),
    "58": (Kind.BUSY, "the server's disk failed; see its log"),
    "XX": (Kind.BUSY, "the server reports damage; see its log"),
}
# A server that lets nobody in gives no SQLSTATE, only words. What is not here is waited for.
_REFUSALS = {
    "authentication failed": _LOGIN,
    "no password supplied": _LOGIN,
    "pg_hba.conf": _LOGIN,
    "not permitted to log in": _LOGIN,
    'FATAL:  role "': _LOGIN,
    'FATAL:  database "': _DATABASE,
    "permission denied for database": _RIGHTS,
    "certificate": _TLS,
    "does not support SSL": _TLS,
    "invalid connection option": "correct the options in the setting store",
    "invalid sslmode": _TLS,
}


class Postgresql(Dialect):
    errors = (exc.DBAPIError, psycopg.Error)  # COPY goes past SQLAlchemy
    locking = " FOR NO KEY UPDATE"  # rows that only refer to them need not wait

    def engine(self, busy_timeout_s: float) -> Engine:
        return self._engine(_OPTIONS)

    def quick_engine(self, within_s: float) -> Engine:
        quick = {
            "connect_timeout": str(max(2, round(within_s / 2))),
            "tcp_user_timeout": str(round(within_s * 1000)),
        }
        return self._engine(_OPTIONS | quick)

    def _engine(self, wanted: dict[str, str]) -> Engine:
        options = {name: value for name, value in wanted.items() if name not in self.url.query}
        return create_engine(
            self.url.set(drivername="postgresql+psycopg"),
            isolation_level="REPEATABLE READ",
            pool_size=8,
            max_overflow=24,
            connect_args=options,
        )

    def make_writer(self, connection: Connection, busy_timeout_s: float) -> None:
        see_each_commit(connection)
        wait = f"{max(1, round(busy_timeout_s * 1000))}ms"
        connection.execute(text("SELECT set_config('lock_timeout', :wait, false)"), {"wait": wait})
        # Others on this server may do without, but what we acknowledge must survive a crash.
        connection.execute(
            text(
                "SELECT set_config('synchronous_commit', 'on', false)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
        )
        connection.commit()

    def end_when_idle(self, connection: Connection, idle_s: float) -> None:
        setting = "SELECT set_config('idle_in_transaction_session_timeout', :idle, false)"
        connection.execute(text(setting), {"idle": f"{max(1, round(idle_s * 1000))}ms"})
        connection.commit()

    def risk(self, connection: Connection) -> str | None:
        setting = connection.execute(text("SELECT current_setting('fsync')")).scalar()
        return None if setting == "on" else f"fsync is {setting}: set fsync=on"

    def claim(self, connection: Connection) -> bool:
        """By an advisory lock, which lives as long as the session. Each schema is its own store."""
        key = {"key": _claim_key(connection)}
        taken = connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar()
        connection.commit()
        return bool(taken)

    def claimant(self, connection: Connection) -> int | None:
        key = _claim_key(connection) & 0xFFFF_FFFF_FFFF_FFFF
        held = text(
            "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted"
            " AND l.objsubid = 1 AND l.classid::bigint = :high AND l.objid::bigint = :low"
        )
        halves = {"high": key >> 32, "low": key & 0xFFFF_FFFF}
        number = connection.execute(held, halves).scalar()
        connection.commit()
        return None if number is None else int(number)

    def session(self, connection: Connection) -> int | None:
        number = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        connection.commit()
        return int(number)

    def end_session(self, connection: Connection, number: int) -> None:
        connection.execute(text("SELECT pg_terminate_backend(:number)"), {"number": number})
        connection.commit()

    def hang_up(self, driver: Any) -> None:
        with socket.socket(fileno=os.dup(driver.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def trouble(self, error: Exception) -> Trouble:
        orig = error.orig if isinstance(error, exc.DBAPIError) else error
        reason = (str(orig).splitlines() or [type(orig).__name__])[0]
        state = getattr(orig, "sqlstate", None)
        if state is not None:
            fitting = [prefix for prefix in _STATES if state.startswith(prefix)]
            kind, hint = _STATES[max(fitting, key=len)] if fitting else (Kind.BROKEN, "")
            return Trouble(kind, reason, hint)
        for part, hint in _REFUSALS.items():
            if part in str(orig):
                return Trouble(Kind.REFUSED, reason, hint)
        lost = isinstance(orig, psycopg.OperationalError | psycopg.InterfaceError)
        return Trouble(Kind.LOST if lost else Kind.BROKEN, reason)

    def compare_by_code_point(
        self, connection: Connection, tables: TextColumns, references: References
    ) -> None:
        """The order of a language also changes with the system's libraries, under the indexes."""
        for table, columns in tables.items():
            changes = [
                sql.SQL('ALTER COLUMN {} TYPE varchar({}) COLLATE "C"').format(
                    sql.Identifier(name), sql.Literal(characters)
                )
                for name, characters in columns.items()
            ]
            statement = sql.SQL("ALTER TABLE {} {}").format(
                sql.Identifier(table), sql.SQL(", ").join(changes)
            )
            connection.exec_driver_sql(statement.as_string())

    def last_id(self, connection: Connection, table: str) -> int:
        query = text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id'))")
        return int(connection.execute(query, {"name": table}).scalar() or 0)

    def insert_many(
        self, connection: Connection, table: Table, columns: tuple[str, ...], rows: Rows
    ) -> None:
        if len(rows) < _COPIED:
            super().insert_many(connection, table, columns, rows)
            return
        compiler = connection.dialect
        compiled = (table.c[column].type.compile(compiler) for column in columns)
        types = [text.partition("(")[0].lower() for text in compiled]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with _driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def advance(self, connection: Connection, counters: Table, name: str, by: int) -> int:
        return _number(connection, f"{_advanced(counters, name, by)} RETURNING value")

    def update_numbered(
        self,
        connection: Connection,
        counters: Table,
        counter: str,
        table: Table,
        key: str,
        columns: tuple[str, ...],
        numbered: str,
        rows: Sequence[tuple[int, ...]],
    ) -> int:
        """In one statement, so that the counter is not locked for longer than that and a commit."""
        values = ", ".join(f"{name} = given.{name}" for name in columns)
        number: int | None = None
        for new in given((key, *columns), rows):
            next_ = f"{_advanced(counters, counter, 1)} RETURNING value"
            its = f"SELECT {number} AS value" if number else next_
            changed = (
                f"UPDATE {table.name} SET {values}, {numbered} = its.value FROM its, {new}"  # noqa: S608
                f" WHERE {table.name}.{key} = given.{key}"
            )
            query = f"WITH its AS ({its}), changed AS ({changed}) SELECT value FROM its"  # noqa: S608
            number = _number(connection, query)
        return self.advance(connection, counters, counter, 1) if number is None else number

    def number_on(self, connection: Connection, table: Table) -> None:
        column = table.autoincrement_column
        if column is not None:
            highest = select(func.max(column)).scalar_subquery()
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(select(func.setval(sequence, highest)).where(highest.is_not(None)))

    def together(self, connection: Connection, rows: int) -> AbstractContextManager[Any]:
        """COPY has a conversation of its own."""
        return _driver(connection).pipeline() if rows < _COPIED else nullcontext()


def _advanced(counters: Table, name: str, by: int) -> str:
    """The names are our own."""
    return f"UPDATE {counters.name} SET value = value + {by:d} WHERE name = '{name}'"  # noqa: S608


def _number(connection: Connection, statement: str) -> int:
    """Its answer can be read where statements travel together, too."""
    with _driver(connection).cursor() as cursor:
        row = cursor.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _claim_key(connection: Connection) -> int:
    schema = connection.execute(text("SELECT current_schema()")).scalar()
    digest = blake2b(f"tocsin {schema}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    return cast("psycopg.Connection[Any]", connection.connection.dbapi_connection)
