"""What differs between databases: how to connect, begin, and read their errors.

The only module of the store that may name a database product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url

from tocsin.errors import SettingError, Unavailable

FIELD = "store"
_WRITES = "tocsin_writes"

_SERVERS = {
    "postgresql": "postgresql+psycopg://user@host/database",
    "mariadb": "mariadb+pymysql://user@host/database",
    "mysql": "mysql+pymysql://user@host/database",
}
_HINTS = {
    "is locked": "another process holds the store; stop it, or try again",
    "is full": "free some disk space; nothing of this request was written",
    "readonly": "give this user the right to write the store's file and directory",
    "disk i/o": "check the disk; nothing of this request was written",
    "malformed": "the store's file is damaged; restore it from a backup",
}


def open_engine(text: str, *, busy_timeout_s: float) -> Engine:
    """An engine for a store address such as sqlite:///data/store.db; refuses what cannot work."""
    try:
        url = make_url(text)
        url.get_dialect()
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise SettingError(
            f"{text!r} is not the address of a store",
            field=FIELD,
            hint="give an address such as sqlite:///data/store.db",
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite":
        return _open_sqlite(url, busy_timeout_s)
    if kind not in _SERVERS:
        raise SettingError(
            f"{_shown(text)!r}: Tocsin keeps no store on {kind}",
            field=FIELD,
            hint=f"give an address of {', '.join(_SERVERS.values())} or sqlite:///FILE",
        )
    try:
        return create_engine(url, pool_pre_ping=True)
    except ImportError as error:
        raise SettingError(
            f"{_shown(text)!r} names a driver that is not installed: {error.name}",
            field=FIELD,
            hint=f"use {_SERVERS[kind]}",
        ) from None


def reading(connection: Connection) -> Connection:
    """Make the connection's next transaction see one unmoving state of the store."""
    if connection.dialect.name == "sqlite":
        return connection.execution_options(**{_WRITES: False})
    return connection.execution_options(isolation_level="REPEATABLE READ")


def writing(connection: Connection) -> Connection:
    """Make the connection's next transaction a writer's from its first moment."""
    return connection.execution_options(**{_WRITES: True})


@contextmanager
def opening(url: str) -> Iterator[None]:
    """A store that cannot be opened at all is a wrong setting, unless it is only busy."""
    try:
        yield
    except exc.DatabaseError as error:
        reason = str(error.orig)
        if "not a database" in reason or "unable to open" in reason:
            raise SettingError(
                f"cannot open the store {_shown(url)}: {reason}",
                field=FIELD,
                hint="name a file of the store, or one that does not exist yet in a directory"
                " that does",
            ) from error
        raise _unavailable(reason) from error


@contextmanager
def answering() -> Iterator[None]:
    """The database's refusals become Unavailable; broken invariants pass through and crash."""
    try:
        yield
    except exc.TimeoutError as error:
        raise Unavailable("too many requests wait for the store", hint="try again") from error
    except (exc.IntegrityError, exc.DataError, exc.ProgrammingError):
        raise
    except exc.DatabaseError as error:
        raise _unavailable(str(error.orig)) from error


def _unavailable(reason: str) -> Unavailable:
    hint = next((hint for part, hint in _HINTS.items() if part in reason.lower()), "try again")
    return Unavailable(f"the store cannot answer: {reason}", hint=hint)


def _shown(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def _open_sqlite(url: URL, busy_timeout_s: float) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SettingError(
            "a store in memory would forget what it acknowledged",
            field=FIELD,
            hint="name a file: sqlite:///data/store.db",
        )
    directory = Path(str(url.database)).absolute().parent
    if not directory.is_dir():
        raise SettingError(
            f"cannot open the store {url}: the directory {directory} does not exist",
            field=FIELD,
            hint="create the directory first",
        )
    engine = create_engine(url, pool_size=8, max_overflow=56)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        for pragma in (
            f"busy_timeout = {int(busy_timeout_s * 1000)}",
            "journal_mode = WAL",
            "synchronous = FULL",  # in WAL mode NORMAL may lose the last commits at a power cut
            "foreign_keys = ON",
            "cache_size = -65536",
            "journal_size_limit = 67108864",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and then writes cannot wait for another writer: SQLite
        # would refuse it at once. So writers say so when they begin.
        writes = connection.get_execution_options().get(_WRITES, True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
