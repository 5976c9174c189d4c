"""MariaDB, through PyMySQL."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, cast

import pymysql
from sqlalchemy import Connection, Engine, Table, create_engine, event, exc, inspect, text

from tocsin.errors import SettingError, TooLarge
from tocsin.storage.store.dialect.contract import (
    FIELD,
    Dialect,
    Kind,
    References,
    TextColumns,
    Trouble,
    see_each_commit,
)
from tocsin.storage.store.numbers import given

# A server that vanished without a word is noticed in time. An address may say otherwise.
_OPTIONS: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 60, "write_timeout": 60}

# What we rely on, whatever the server's default: refuse what does not fit instead of cutting it,
# store an id of 0 as 0, and read backslashes as the driver writes them.
_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"

_FLUSH = "innodb_flush_log_at_trx_commit"
_CLAIM = "CONCAT('tocsin.', MD5(DATABASE()))"

_LOGIN = "correct user and password in the setting store, or the user's rights on the server"
_DATABASE = "create the database, or name another in the setting store"
_RIGHTS = "let this user create and change tables there: GRANT ALL ON DATABASE.* TO …"
_TLS = "correct ssl_ca and the like in the setting store, or the server's certificate"
_FULL = "free some disk space; nothing of this request was written"
_READ_ONLY = "the server is read-only; name the one that may be written"

_NUMBERS = {
    1020: (Kind.AGAIN, ""),
    1021: (Kind.BUSY, _FULL),
    1026: (Kind.BUSY, _FULL),
    1040: (Kind.LOST, "raise the server's max_connections, or let others use fewer"),
    1041: (Kind.BUSY, "the server is short of memory; nothing of this request was written"),
    1044: (Kind.REFUSED, _RIGHTS),
    1045: (Kind.REFUSED, _LOGIN),
    1049: (Kind.REFUSED, _DATABASE),
    1053: (Kind.LOST, ""),
    1114: (Kind.BUSY, _FULL),
    1129: (Kind.REFUSED, "on the server: FLUSH HOSTS"),
    1130: (Kind.REFUSED, _LOGIN),
    1142: (Kind.REFUSED, _RIGHTS),
    1143: (Kind.REFUSED, _RIGHTS),
    1203: (Kind.LOST, "raise this user's max_user_connections"),
    1205: (Kind.BUSY, "another session has locked the store; end it, or try again"),
    1213: (Kind.AGAIN, ""),
    1227: (Kind.REFUSED, _RIGHTS),
    1290: (Kind.BUSY, _READ_ONLY),
    1317: (Kind.BUSY, "somebody stopped the statement; try again"),
    1370: (Kind.REFUSED, _RIGHTS),
    1698: (Kind.REFUSED, _LOGIN),
    1792: (Kind.BUSY, _READ_ONLY),
    1836: (Kind.BUSY, _READ_ONLY),
    1927: (Kind.LOST, ""),
    2026: (Kind.REFUSED, _TLS),
}


class Mariadb(Dialect):
    references_lock = True

    def engine(self, busy_timeout_s: float) -> Engine:
        return self._engine(_OPTIONS)

    def quick_engine(self, within_s: float) -> Engine:
        return self._engine(dict.fromkeys(_OPTIONS, max(1, round(within_s / 2))))

    def _engine(self, wanted: dict[str, Any]) -> Engine:
        options = {name: value for name, value in wanted.items() if name not in self.url.query}
        engine = create_engine(
            self.url.set(drivername="mariadb+pymysql"),
            isolation_level="REPEATABLE READ",
            pool_size=8,
            max_overflow=24,
            connect_args={"sql_mode": _MODE} | options,
        )

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: Any, _record: Any, given: Any, named: dict[str, Any]) -> _Connection:
            return _Connection(*given, **named)

        return engine

    def make_writer(self, connection: Connection, busy_timeout_s: float) -> None:
        self._require_row_log(connection)
        see_each_commit(connection)
        wait_s = max(1, round(busy_timeout_s))
        for name, value in (
            ("innodb_lock_wait_timeout", wait_s),
            ("lock_wait_timeout", wait_s),
            ("wait_timeout", 2_147_483),  # of an idle session: the claim lives as long as it
        ):
            connection.execute(text(f"SET SESSION {name} = :value"), {"value": value})
        connection.commit()

    def end_when_idle(self, connection: Connection, idle_s: float) -> None:
        idle = {"idle": max(1, round(idle_s))}
        connection.execute(text("SET SESSION idle_write_transaction_timeout = :idle"), idle)
        connection.execute(text("SET SESSION idle_transaction_timeout = :idle"), idle)
        connection.commit()

    def _require_row_log(self, connection: Connection) -> None:
        logs, format_ = connection.execute(text("SELECT @@log_bin, @@binlog_format")).one()
        connection.rollback()
        if logs and format_ == "STATEMENT":
            raise SettingError(
                f"the server of the store {self} logs statements, from which transactions that"
                " write at the same time cannot be repeated",
                field=FIELD,
                hint="set binlog_format=MIXED on the server",
            )

    def risk(self, connection: Connection) -> str | None:
        setting = connection.execute(text(f"SELECT @@{_FLUSH}")).scalar()
        return None if setting == 1 else f"{_FLUSH} is {setting}: set {_FLUSH}=1"

    def claim(self, connection: Connection) -> bool:
        """By a lock with a name, which lives as long as the session and is the server's: so the
        name says which database."""
        taken = connection.execute(text(f"SELECT GET_LOCK({_CLAIM}, 0)")).scalar()
        connection.commit()
        return taken == 1

    def claimant(self, connection: Connection) -> int | None:
        number = connection.execute(text(f"SELECT IS_USED_LOCK({_CLAIM})")).scalar()
        connection.commit()
        return None if number is None else int(number)

    def session(self, connection: Connection) -> int | None:
        number = connection.execute(text("SELECT CONNECTION_ID()")).scalar_one()
        connection.commit()
        return int(number)

    def end_session(self, connection: Connection, number: int) -> None:
        connection.execute(text(f"KILL HARD CONNECTION {number:d}"))
        connection.commit()

    def hang_up(self, driver: Any) -> None:
        driver._sock.shutdown(socket.SHUT_RDWR)

    def trouble(self, error: Exception) -> Trouble:
        assert isinstance(error, exc.DBAPIError)
        orig = cast(Exception, error.orig)
        number = orig.args[0] if orig.args and isinstance(orig.args[0], int) else 0
        reason = str(orig.args[-1]) if orig.args else type(orig).__name__
        if "certificate" in reason.lower():
            return Trouble(Kind.REFUSED, reason, _TLS)
        if number in _NUMBERS:
            kind, hint = _NUMBERS[number]
            return Trouble(kind, reason, hint)
        ours = 2000 <= number < 3000  # the driver's own numbers: no connection, or lost
        if ours or error.connection_invalidated or isinstance(orig, pymysql.InterfaceError):
            return Trouble(Kind.LOST, reason or "the connection is closed")
        return Trouble(Kind.BROKEN, reason)

    def compare_by_code_point(
        self, connection: Connection, tables: TextColumns, references: References
    ) -> None:
        """Besides, its usual binary collations take "a" and "a " for the same name. A column that
        a reference holds cannot be changed, so references are dropped and made again."""
        for name in tables:
            for key in inspect(connection).get_foreign_keys(name):
                connection.exec_driver_sql(f"ALTER TABLE {name} DROP FOREIGN KEY {key['name']}")
        for name in tables:
            collation = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
            connection.exec_driver_sql(f"ALTER TABLE {name} CONVERT TO {collation}")
        for name, column, other, its in references:
            connection.exec_driver_sql(
                f"ALTER TABLE {name} ADD FOREIGN KEY ({column}) REFERENCES {other} ({its})"
            )

    def last_id(self, connection: Connection, table: str) -> int:
        query = text(
            "SELECT auto_increment - 1 FROM information_schema.tables"
            " WHERE table_schema = DATABASE() AND table_name = :name"
        )
        return int(connection.execute(query, {"name": table}).scalar() or 0)

    def advance(self, connection: Connection, counters: Table, name: str, by: int) -> int:
        """The server's answer to the UPDATE tells the number."""
        grown = f"UPDATE {counters.name} SET value = LAST_INSERT_ID(value + {by:d})"  # noqa: S608
        return int(connection.exec_driver_sql(f"{grown} WHERE name = '{name}'").lastrowid)

    def update_many(
        self,
        connection: Connection,
        table: Table,
        key: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[int, ...]],
    ) -> None:
        values = ", ".join(f"{table.name}.{name} = given.{name}" for name in columns)
        for new in given((key, *columns), rows):
            same = f"{table.name}.{key} = given.{key}"
            connection.exec_driver_sql(
                f"UPDATE {table.name} JOIN {new} ON {same} SET {values}"  # noqa: S608
            )


class _Connection(pymysql.Connection):  # type: ignore[misc]  # the driver is untyped
    """Refuses what is too long for the server, which would answer by hanging up: that looks like
    a lost connection, and would be tried again for ever."""

    _most_bytes = 0

    def connect(self, sock: Any = None) -> None:
        super().connect(sock)
        with self.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet")
            (self._most_bytes,) = cursor.fetchone()

    def query(self, sql: str | bytes, unbuffered: bool = False) -> int:
        statement = sql.encode(self.encoding) if isinstance(sql, str) else sql
        if 0 < self._most_bytes <= len(statement):
            raise TooLarge(
                f"{len(statement)} bytes at once are more than the store takes:"
                f" its max_allowed_packet is {self._most_bytes}",
                field=FIELD,
                hint="raise max_allowed_packet on the server, or make results smaller",
            )
        return int(super().query(statement, unbuffered))
