"""A writing transaction, and the order in which all of them lock.

Who has read sequence number n has seen every commit up to n; numbers of results grow with commits,
too. SQLite has one writer, which counts by itself. On a server several may write at once, so each
counts in a row of the database, which stays locked until its commit can be seen. All lock in one
order, so that none waits for another in a ring:

    the writer's fence, rows of backend subscriptions by id, the number of the last result, the
    sequence

The sequence comes last, together with the heads that it is of: only what follows it happens one by
one. A writer sees what others have committed when each of its statements begins, so what it reads
and then writes it has to lock first, in a statement of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Table, case, insert, select, update

from tocsin.storage.store import schema
from tocsin.storage.store.dialect import Dialect
from tocsin.storage.store.numbers import listed
from tocsin.storage.store.subscription_rows import chunks

SEQUENCE = "sequence"
SHARED = (SEQUENCE, schema.RESULT_COUNTER)  # counters of all who write

_backend = schema.backend_subscriptions
_counters = schema.counters


def current_sequence(connection: Connection) -> int:
    """The sequence of the last commit that this transaction can see."""
    query = select(_counters.c.value).where(_counters.c.name == SEQUENCE)
    return int(connection.execute(query).scalar_one())


class SharedWrite:
    """A writing transaction beside which others may write."""

    def __init__(self, connection: Connection, dialect: Dialect, now: float) -> None:
        self.connection = connection
        self.now = now
        self._dialect = dialect

    @property
    def locking(self) -> str:
        """Ends a SELECT whose rows only this transaction may change from then on. They are locked
        by id; what the statement says of them is true until the commit."""
        return f" ORDER BY id{self._dialect.locking}"

    def take_numbers(self, count: int) -> range:
        """Of results: they grow in the order of commits."""
        last = self._dialect.advance(self.connection, _counters, schema.RESULT_COUNTER, count)
        return range(last - count + 1, last + 1)

    def raise_heads(self, heads: Mapping[int, int]) -> int:
        """Comes last. Returns the sequence of this commit, which the new heads bear."""
        rows = list(heads.items())
        at = (self.connection, _counters, SEQUENCE)
        return self._dialect.update_numbered(*at, _backend, "id", ("head",), SEQUENCE, rows)

    def last_sequence(self) -> int:
        """The sequence of the newest commit that can be seen."""
        return current_sequence(self.connection)

    def insert_many(
        self, table: Table, columns: tuple[str, ...], rows: list[tuple[Any, ...]]
    ) -> None:
        """Many rows the fastest way the database has; `columns` are in the table's order."""
        self._dialect.insert_many(self.connection, table, columns, rows)

    def together(self, rows: int) -> AbstractContextManager[Any]:
        """Statements in the block that write about so many rows, and whose outcome is not
        looked at, may travel together."""
        return self._dialect.together(self.connection, rows)


class Write(SharedWrite):
    """One of the writer's. What `after_commit` is given runs before its next one starts."""

    def __init__(
        self, connection: Connection, dialect: Dialect, now: float, counters: Mapping[str, int]
    ) -> None:
        super().__init__(connection, dialect, now)
        self.after_commit: list[Callable[[], None]] = []
        self.counted: dict[str, int] = {}  # counters as they will be
        self._counters = counters  # as they were, but for those of all, if others write too
        self._sequence: int | None = None

    def sequence(self) -> int:
        """This transaction's own sequence number. Commits happen in the order of their numbers,
        so that whoever has read number n has seen everything up to n. From here on it locks no
        rows that others write."""
        if self._sequence is None:
            self._sequence = self._take(SEQUENCE, 1)[0]
        return self._sequence

    def take_ids(self, kind: str, count: int) -> range:
        """Ids that nobody has had before; one that is not used in the end is given again."""
        assert kind not in SHARED
        return self._take(kind, count)

    def take_numbers(self, count: int) -> range:
        return self._take(schema.RESULT_COUNTER, count)

    def _take(self, kind: str, count: int) -> range:
        if self._dialect.many_write and kind in SHARED:
            last = self._dialect.advance(self.connection, _counters, kind, count)
            return range(last - count + 1, last + 1)
        last = self.counted.get(kind, self._counters[kind])
        self.count(kind, last + count)
        return range(last + 1, last + count + 1)

    def count(self, counter: str, value: int) -> None:
        """Let a counter stand there from this commit on."""
        self.counted[counter] = value

    def raise_heads(self, heads: Mapping[int, int]) -> int:
        if self._dialect.many_write and self._sequence is None:
            self._sequence = super().raise_heads(heads)
            return self._sequence
        sequence = self.sequence()
        rows = [(backend, head, sequence) for backend, head in heads.items()]
        columns = ("head", SEQUENCE)
        self._dialect.update_many(self.connection, _backend, "id", columns, rows)
        return sequence

    def last_sequence(self) -> int:
        if self._dialect.many_write:
            return super().last_sequence()
        return self.counted.get(SEQUENCE, self._counters[SEQUENCE])

    def lock_backends(self, numbers: Iterable[int]) -> None:
        """Nobody else changes these rows until the commit, nor stores results that are theirs. In
        the order of their ids, so that whoever locks more of them takes higher ones."""
        if self._dialect.many_write:
            for chunk in chunks(sorted(set(numbers))):
                query = f"SELECT id FROM {_backend.name} WHERE id IN {listed(chunk)}"  # noqa: S608
                self.connection.exec_driver_sql(f"{query}{self.locking}").all()

    def lock_referred(self, numbers: Iterable[int]) -> None:
        """Rows that are about to refer to these lock them, on some databases: so do rows that refer
        to them already, when they change what lies in one index with that."""
        if self._dialect.references_lock:
            self.lock_backends(numbers)

    def lock_counters(self) -> dict[str, int]:
        """All of them, as they are, and for this transaction alone."""
        query = f"SELECT name, value FROM {_counters.name}{self._dialect.locking}"  # noqa: S608
        return {name: value for name, value in self.connection.exec_driver_sql(query)}

    def number_on(self, table: Table) -> None:
        """Rows with ids were copied in: the database gives higher ones from now on."""
        self._dialect.number_on(self.connection, table)

    def store_counters(self) -> None:
        """All in one statement: they change with every commit."""
        new = [name for name in self.counted if name not in self._counters]
        if new:
            rows = [{"name": name, "value": self.counted[name]} for name in new]
            self.connection.execute(insert(_counters), rows)
        moved = {name: value for name, value in self.counted.items() if name not in new}
        if moved:
            chosen = update(_counters).where(_counters.c.name.in_(moved))
            self.connection.execute(chosen.values(value=case(moved, value=_counters.c.name)))
