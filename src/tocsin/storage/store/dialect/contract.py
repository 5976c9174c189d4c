"""What the store asks of a database, with what is the same for all of them.

Knows no product. `storage.store.database` says how the store uses these words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from sqlalchemy import Connection, Engine, Table, exc, insert
from sqlalchemy.engine import URL
from sqlalchemy.engine import Dialect as CompilerDialect

from tocsin.storage.store.numbers import given

FIELD = "store"  # the setting that every complaint about an address names

Rows = Sequence[tuple[Any, ...]]
TextColumns = dict[str, dict[str, int]]
"""By table: column → most characters."""
References = list[tuple[str, str, str, str]]
"""Table, column, other table, its column."""


class Kind(Enum):
    """What an error of a database means for the one who asked."""

    LOST = auto()  # no connection: nobody knows whether a commit under way has happened
    AGAIN = auto()  # it took the transaction back so that others could go on: repeat it
    REFUSED = auto()  # address, password or rights are wrong, and stay so until somebody acts
    BUSY = auto()  # nothing happened, and it may work later
    BROKEN = auto()  # an invariant of ours: crash


class Trouble(Struct, frozen=True):
    kind: Kind
    reason: str
    hint: str = ""

    @property
    def advice(self) -> str:
        waits = "Tocsin goes on trying; see that the server runs and can be reached"
        return self.hint or (waits if self.kind is Kind.LOST else "try again")


class Dialect(ABC):
    """One database at one address."""

    errors: ClassVar[tuple[type[Exception], ...]] = (exc.DBAPIError,)
    leased: ClassVar[bool] = True
    """Whether the claim may outlive who holds it, so that a lease has to be kept beside it."""

    many_write: ClassVar[bool] = True
    """Whether several connections write at once, and lock rows."""
    references_lock: ClassVar[bool] = False
    """Whether a new row waits for who writes the row that it refers to."""
    locking: ClassVar[str] = " FOR UPDATE"
    """Ends a SELECT whose rows nobody else may change until the commit."""

    directory: Path | None = None  # that has the store's file

    def __init__(self, url: URL) -> None:
        self.url = url

    def __str__(self) -> str:
        """The address for people: no password, and no options, which may hold another."""
        return self.url.set(password=None, query={}).render_as_string()

    @abstractmethod
    def engine(self, busy_timeout_s: float) -> Engine:
        """Connections whose transactions each see one state of the store; refuses an address
        that cannot work."""

    @abstractmethod
    def make_writer(self, connection: Connection, busy_timeout_s: float) -> None:
        """Prepare a connection that writes: durable commits, and no endless wait for a lock. Each
        statement sees what others have committed when it begins, so that a row which another has
        changed meanwhile can be written."""

    def end_when_idle(self, connection: Connection, idle_s: float) -> None:
        """Have the server end this session when it is silent for so long in a transaction: whoever
        waits for its locks waits no longer."""
        return

    def risk(self, connection: Connection) -> str | None:
        """How the server is set to lose commits at a power cut, which we cannot change."""
        return None

    @abstractmethod
    def claim(self, connection: Connection) -> bool:
        """Take the store for this connection alone, until it closes; False: another has it."""

    def claimant(self, connection: Connection) -> int | None:
        """The session that has the claim, as the server numbers it."""
        return None

    def session(self, connection: Connection) -> int | None:
        """This one's number."""
        return None

    def end_session(self, connection: Connection, number: int) -> None:
        """Have the server end a session of ours, with its claim and its open transaction."""
        return

    def quick_engine(self, within_s: float) -> Engine:
        """Connections for what is no use when it takes longer."""
        raise NotImplementedError

    def hang_up(self, driver: Any) -> None:
        """Break a driver's connection from another thread: who waits for an answer gets none."""
        return

    def release(self) -> None:
        """Called when the connection that claimed is closed."""
        return

    @abstractmethod
    def trouble(self, error: Exception) -> Trouble:
        """What one of `errors` means."""

    @abstractmethod
    def compare_by_code_point(
        self, connection: Connection, tables: TextColumns, references: References
    ) -> None:
        """Make text in existing tables differ by case, accents and blanks, and sort alike
        everywhere. References are as they were afterwards. May be repeated."""

    @abstractmethod
    def last_id(self, connection: Connection, table: str) -> int:
        """The highest id that the database itself has ever given to a row of the table."""

    def insert_many(
        self, connection: Connection, table: Table, columns: tuple[str, ...], rows: Rows
    ) -> None:
        """Write many rows the fastest way there is. `columns` are in the table's order."""
        connection.exec_driver_sql(_insert(table, columns, connection.dialect), list(rows))

    def update_many(
        self,
        connection: Connection,
        table: Table,
        key: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[int, ...]],
    ) -> None:
        """Give many rows numbers: each of `rows` is a key, and what the columns are to be."""
        values = ", ".join(f"{name} = given.{name}" for name in columns)
        for new in given((key, *columns), rows):
            connection.exec_driver_sql(
                f"UPDATE {table.name} SET {values} FROM {new}"  # noqa: S608
                f" WHERE {table.name}.{key} = given.{key}"
            )

    @abstractmethod
    def advance(self, connection: Connection, counters: Table, name: str, by: int) -> int:
        """Let a counter grow. It is locked until the commit, so that commits follow each other as
        their numbers do."""

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
        """`update_many`, and one more column gets the next number of a counter, which is
        returned."""
        number = self.advance(connection, counters, counter, 1)
        every = [(*row, number) for row in rows]
        self.update_many(connection, table, key, (*columns, numbered), every)
        return number

    def number_on(self, connection: Connection, table: Table) -> None:
        """Let ids that the database itself gives go on behind those of the rows that are there.
        Most databases do so by themselves."""
        return

    def together(self, connection: Connection, rows: int) -> AbstractContextManager[Any]:
        """Send the statements of the block at once, if the database can. They write about so many
        rows; what came of each is not looked at, but any failure is raised by the end."""
        return nullcontext()


def see_each_commit(connection: Connection) -> None:
    """From now on what others commit is seen by the next statement. Past SQLAlchemy, which would
    give the level back when the connection returns to a pool: this one never does."""
    driver: Any = connection.connection.dbapi_connection
    connection.dialect.set_isolation_level(driver, "READ COMMITTED")


@lru_cache
def _insert(table: Table, columns: tuple[str, ...], compiler: CompilerDialect) -> str:
    make: Callable[..., CompilerDialect] = type(compiler)
    positional = make(paramstyle="qmark" if compiler.positional else "format")
    return str(insert(table).compile(dialect=positional, column_keys=columns))
