"""Transactions of the store, whatever happens to the connection.

Work is given as a function of the store's state, and is repeated when a connection or a lock took
it back: so it does nothing but read, write, and note what to do `after_commit`. Readers see one
state of the store. Writers go one after the other (`storage.writer`). A short outage delays, a
long one is reported (`storage.store.outage`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, event, exc, select

from tocsin.errors import NotLeading, SettingError, TocsinError, Unavailable
from tocsin.storage.store import schema
from tocsin.storage.store.dialect import FIELD, Dialect, Kind, Trouble, dialect_of
from tocsin.storage.store.lease import LEASE_S, Lease
from tocsin.storage.store.outage import CircuitBreaker
from tocsin.storage.store.pace import Pace, Threads
from tocsin.storage.store.standby import Standby
from tocsin.storage.store.write import Write, current_sequence
from tocsin.storage.store.writer import Attempt, TakenOver, Writer

__all__ = ["Database", "Write", "current_sequence", "reads", "writes"]

_CLOSE_S = 5.0
_PREPARED = "prepared"  # what a connection is noted as
_TRIES = 10  # at one transaction: it may itself be what the server cannot bear

T = TypeVar("T")
P = ParamSpec("P")


class Database:
    """Safe to call from any thread."""

    def __init__(
        self,
        url: str | Dialect,
        *,
        busy_timeout_s: float = 10.0,
        patience_s: float = 10.0,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        pace: Pace | None = None,
        address: str = "",
        standby: Standby | None = None,
    ) -> None:
        """`address`: where its holder is called. `standby`: another holder is waited for."""
        pace = pace or Threads()
        self._clock = clock
        self.busy_timeout_s = busy_timeout_s
        self._lock = Lock()
        self._opening = Lock()
        self._closed = False
        self._dialect = self.dialect = url if isinstance(url, Dialect) else dialect_of(url)
        self._caught: tuple[type[Exception], ...] = (exc.SQLAlchemyError, *self._dialect.errors)
        self._drivers: WeakSet[Any] = WeakSet()  # of connections to a server
        self._engine = self._new_engine()
        self._shared: Engine | None = None  # of those that write beside the writer
        self.lease = Lease(self._dialect, lease_s, self._deposed, pace, address)
        self._writer = Writer(
            self._engine, self._dialect, busy_timeout_s, self.lease, pace, standby
        )
        self.breaker = CircuitBreaker(self._come_back, patience_s, pace)
        try:
            self.id, self.opened_at_sequence = self._open()
        except BaseException:
            self.close()
            raise

    def now(self) -> float:
        """By the clock that commits are stamped by."""
        return self._clock()

    def use_clock(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    @property
    def directory(self) -> Path | None:
        return self._dialect.directory

    @property
    def engine(self) -> Engine:
        """For those who watch what is committed, and break it: the fault simulation."""
        return self._engine

    @property
    def shown(self) -> str:
        """The store's address as people may read it."""
        return str(self._dialect)

    def read(self, work: Callable[[Connection], T]) -> T:
        """The work sees one state of the store, whatever is written meanwhile."""
        tries = 0
        while True:
            self.breaker.enter()
            tries += 1
            try:
                with self._engine.connect() as connection, connection.begin():
                    return work(connection)
            except self._caught as error:
                self._handle_error(error, tries)

    def write(self, work: Callable[[Write], T]) -> T:
        """All of the work is durable when this returns; if it raises, nothing of it happened,
        unless the hint says that this is unknown."""
        attempt = Attempt(work)
        try:
            self._carry_out(attempt)
        except Unavailable as error:
            if not attempt.in_doubt:
                raise
            hint = "it may have been done: look before you repeat it"
            raise Unavailable(error.message, field=error.field, hint=hint) from error
        return attempt.result

    def share(self, work: Callable[[Connection], T], prepare: Callable[[Connection], None]) -> T:
        """A transaction that writes beside the writer. It may run again although it was committed:
        the answer may have been lost. Each new connection is prepared first."""
        tries = 0
        while True:
            self.breaker.enter()
            tries += 1
            try:
                with self._sharing().connect() as connection:
                    if not connection.info.get(_PREPARED):
                        prepare(connection)
                        connection.info[_PREPARED] = True
                    with connection.begin():
                        return work(connection)
            except self._caught as error:
                self._handle_error(error, tries)

    def _sharing(self) -> Engine:
        """Apart from those who read: their connections see one state in a transaction."""
        with self._opening:
            if self._shared is None:
                self._shared = self._new_engine()
            return self._shared

    def _new_engine(self) -> Engine:
        engine = self._dialect.engine(self.busy_timeout_s)
        if self._dialect.leased:
            event.listen(engine, "connect", lambda driver, _: self._drivers.add(driver))
        return engine

    def close(self) -> None:
        self.breaker.end(Unavailable("the store is closed", hint="the service is shutting down"))
        if not self._lock.acquire(timeout=_CLOSE_S):
            self._hang_up()  # the server does not answer, and whoever asked it waits in vain
            self._lock.acquire()
        try:
            self._closed = True
            try:
                self.lease.end()
            finally:  # whatever ends us meanwhile: the claim must not outlive us
                self._writer.close()
                self._engine.dispose()
                if self._shared is not None:
                    self._shared.dispose()
        finally:
            self._lock.release()

    def _deposed(self, other: TakenOver) -> None:
        """Called on the lease's thread."""
        self.breaker.fail(self._replaced(other))
        self._hang_up()

    def _hang_up(self) -> None:
        for driver in list(self._drivers):
            with contextlib.suppress(Exception):  # it may be dead already
                self._dialect.hang_up(driver)

    def _carry_out(self, attempt: Attempt[Any]) -> None:
        tries = 0
        while not attempt.committed:
            self.breaker.enter()
            tries += 1
            try:
                with self._lock:
                    if self._closed:
                        continue  # the breaker says so
                    self._writer.ensure()
                    if not attempt.committed:  # it was, if only the answer had been lost
                        self._writer.carry_out(attempt, self._clock())
            except TakenOver as other:
                self.breaker.fail(self._replaced(other))
            except self._caught as error:
                self._handle_error(error, tries)

    def _come_back(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._writer.ask()
            except TakenOver as other:
                raise self._replaced(other) from None
            except self._dialect.errors as error:
                raise self._unavailable(self._dialect.trouble(error)) from error

    def _handle_error(self, error: Exception, tries: int) -> None:
        """Return if the work is to be repeated; else raise what its caller should know."""
        if isinstance(error, exc.TimeoutError):
            raise Unavailable("too many requests wait for the store", hint="try again") from error
        if isinstance(error, exc.StatementError) and isinstance(error.orig, TocsinError):
            raise error.orig from None
        if not isinstance(error, self._dialect.errors):
            raise error
        trouble = self._dialect.trouble(error)
        if trouble.kind is Kind.BROKEN:
            raise error
        if trouble.kind is Kind.LOST:
            self.breaker.shut(self._unavailable(trouble))
        if trouble.kind not in (Kind.LOST, Kind.AGAIN) or tries >= _TRIES:
            raise self._unavailable(trouble) from error

    def _open(self) -> tuple[str, int]:
        try:
            self._try_options()
            return self._begin()
        except self._dialect.errors as error:
            trouble = self._dialect.trouble(error)
            if trouble.kind is Kind.BROKEN:
                raise
            if trouble.kind is Kind.REFUSED:
                raise self._unusable(trouble.reason, trouble.advice) from error
            raise self._unavailable(trouble) from error

    def _begin(self) -> tuple[str, int]:
        self._writer.open()
        self.risk = self.read(self._dialect.risk)
        return self.read(identity)

    def _try_options(self) -> None:
        """Connect once. Nothing but the driver runs here, so that what it cannot read are its
        options."""
        try:
            self._engine.connect().close()
        except self._dialect.errors:
            raise
        except (OSError, TypeError, ValueError) as error:
            raise self._unusable(str(error), "correct the options in the address") from error

    def _unusable(self, reason: str, hint: str) -> SettingError:
        return SettingError(
            f"cannot open the store {self._dialect}: {reason}", field=FIELD, hint=hint
        )

    def _unavailable(self, trouble: Trouble) -> Unavailable:
        return Unavailable(
            f"the store {self._dialect} cannot answer: {trouble.reason}",
            field=FIELD,
            hint=trouble.advice,
        )

    def _replaced(self, other: TakenOver) -> NotLeading:
        return NotLeading(
            f"another cluster has taken over the store {self._dialect}: {other}",
            field=FIELD,
            hint="ask that one; started again, this one waits for it if it is a standby",
        )


def identity(connection: Connection) -> tuple[str, int]:
    row = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == "id"))
    return str(row.scalar_one()), current_sequence(connection)


class _HasDatabase(Protocol):
    _database: Database


S = TypeVar("S", bound=_HasDatabase)


def reads(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """The method is one reading transaction, on the connection that it is given."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.read(lambda connection: method(self, connection, *args, **kwargs))

    return call


def writes(method: Callable[Concatenate[S, Write, P], T]) -> Callable[Concatenate[S, P], T]:
    """The method is one writing transaction. It may run more than once before it is done."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.write(lambda write: method(self, write, *args, **kwargs))

    return call
