"""Transactions of the store and the one sequence that orders them.

Knows no table but its own two (`meta`, `counters`). Writers of this process go one after the
other; the process that opened the store is meant to be its only writer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

from sqlalchemy import Connection, insert, select, update

from tocsin.errors import SettingError, Unavailable
from tocsin.storage import dialect, schema

_SEQUENCE = "sequence"


def current_sequence(connection: Connection) -> int:
    """The sequence of the last commit that this transaction can see."""
    counters = schema.counters
    found = connection.execute(select(counters.c.value).where(counters.c.name == _SEQUENCE))
    return int(found.scalar_one())


class Write:
    """One writing transaction. What `after_commit` is given runs before the next writer starts."""

    def __init__(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self.now = now
        self.after_commit: list[Callable[[], None]] = []
        self._sequence: int | None = None

    def sequence(self) -> int:
        """This transaction's own sequence number.

        The counter's row stays locked until the commit, so that commits happen in the order of
        their numbers, and whoever has read number n has seen everything up to n.
        """
        if self._sequence is None:
            counters = schema.counters
            self.connection.execute(
                update(counters)
                .where(counters.c.name == _SEQUENCE)
                .values(value=counters.c.value + 1)
            )
            self._sequence = current_sequence(self.connection)
        return self._sequence


class Database:
    def __init__(
        self, url: str, *, busy_timeout_s: float = 10.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._lock = RLock()
        self._closed = False
        self._engine = dialect.open_engine(url, busy_timeout_s=busy_timeout_s)
        try:
            with dialect.opening(url):
                self.id, self.opened_at_sequence = self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One state of the store, whatever is written meanwhile."""
        self._refuse_when_closed()
        with (
            dialect.answering(),
            self._engine.connect() as connection,
            dialect.reading(connection).begin(),
        ):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Write]:
        """All of it is durable when the block ends, or nothing of it happened."""
        with self._lock:
            self._refuse_when_closed()
            with (
                dialect.answering(),
                self._engine.connect() as connection,
                dialect.writing(connection).begin(),
            ):
                done = Write(connection, self._clock())
                yield done
            for effect in done.after_commit:
                effect()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._engine.dispose()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed", hint="the service is shutting down")

    def _prepare(self) -> tuple[str, int]:
        meta, counters = schema.meta, schema.counters
        with (
            self._engine.connect() as connection,
            dialect.writing(connection).begin(),
        ):
            meta.create(connection, checkfirst=True)
            known = {row.name: row.value for row in connection.execute(select(meta))}
            if "schema_version" in known:
                _check_version(known["schema_version"])
            else:
                schema.metadata.create_all(connection)
                known = {"schema_version": str(schema.SCHEMA_VERSION), "id": secrets.token_hex(16)}
                rows = [{"name": name, "value": value} for name, value in known.items()]
                connection.execute(insert(meta), rows)
                names = (_SEQUENCE, schema.RESULT_COUNTER)
                connection.execute(insert(counters), [{"name": one, "value": 0} for one in names])
            return known["id"], current_sequence(connection)


def _check_version(found: str) -> None:
    if int(found) != schema.SCHEMA_VERSION:
        newer = int(found) > schema.SCHEMA_VERSION
        raise SettingError(
            f"the store has schema version {found}, this Tocsin knows {schema.SCHEMA_VERSION}",
            field=dialect.FIELD,
            hint="use a newer Tocsin, or another store" if newer else "use an older Tocsin",
        )
