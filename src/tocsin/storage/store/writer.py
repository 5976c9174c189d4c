"""The one connection that writes the store, and what became of its last commit.

A store has one writer at a time: the connection that holds the claim. Every transaction first puts
its fence, a number and who writes, in one row. Therefore
- transactions of writers happen one after the other,
- a commit whose answer was lost is looked up by its fence: it happened, or it is repeated, and
- a writer that another has replaced finds out before it writes anything.

On a database server others may store results beside it (`write` says in which order all lock).

Beside the claim it keeps a lease, so that the claim of a host that is lost can be ended (`lease`).

Not thread-safe: `storage.database` lets in one thread at a time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from tocsin.errors import Conflict, Unavailable
from tocsin.storage.store import schema, upgrades
from tocsin.storage.store.dialect import FIELD, Dialect, Kind
from tocsin.storage.store.lease import Lease, TakenOver, Terms, Watch, read_terms, who
from tocsin.storage.store.pace import Pace
from tocsin.storage.store.places import own_process
from tocsin.storage.store.standby import Leader, Standby
from tocsin.storage.store.write import Write, current_sequence

__all__ = ["Attempt", "TakenOver", "Writer"]

log = structlog.get_logger()

T = TypeVar("T")

_ASK_AGAIN_S = 0.05
_STANDBY_ASKS_S = 0.2
_LET_GO_S = 2.0  # for a server to end a session
_FENCE = schema.meta.c.name == "writer"
_SEEN = schema.meta.c.name.in_(("writer", "id"))
_REPLACED = (
    update(schema.meta)
    .where(_FENCE, schema.meta.c.value == bindparam("ours"))
    .values(value=bindparam("next"))
)
_counters = schema.counters


class Attempt(Generic[T]):
    """One try at a transaction. It is in doubt while a commit was sent and no answer came."""

    def __init__(self, work: Callable[[Write], T]) -> None:
        self.work = work
        self.result: T
        self.fence = ""
        self.after_commit: list[Callable[[], None]] = []
        self.counted: dict[str, int] = {}
        self.in_doubt = False
        self.committed = False


class Writer:
    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        busy_timeout_s: float,
        lease: Lease,
        pace: Pace,
        standby: Standby | None = None,
    ) -> None:
        """`standby`: whoever has the store is waited for, for as long as it leads."""
        self._standby = standby
        self._pace = pace
        self._engine = engine
        self._dialect = dialect
        self._lease = lease
        self._session: int | None = None  # of the connection, as the server numbers it
        self._busy_timeout_s = busy_timeout_s
        self._token = secrets.token_hex(8)
        self._serial = 0
        self._fence = ""  # of our last commit
        self._connection: Connection | None = None
        self._driver: Any = None
        self._doubt: Attempt[Any] | None = None
        self._counters: dict[str, int] | None = None  # those that nobody else changes

    def open(self) -> None:
        """Take the store, and make it or bring it up to date. A writer that is just leaving is
        waited for."""
        connection = self._connect()
        lapsed = self._wait_for_claim(connection)
        there = upgrades.is_store(connection, self._dialect)
        former = self._lease.take(connection) if there else None  # others see that we work on it
        upgrades.prepare(connection, self._dialect)
        if not there:
            self._lease.take(connection)
        self._fence = self._next_fence()
        with connection.begin():
            put = update(schema.meta).where(_FENCE).values(value=self._fence)
            if connection.execute(put).rowcount == 0:
                connection.execute(insert(schema.meta), {"name": "writer", "value": self._fence})
        if former != lapsed:
            self._lease.outlast(former)

    def _wait_for_claim(self, connection: Connection) -> Terms | None:
        """Have the claim. Returns the lease whose holder was found to be lost, if there was one."""
        standby, deadline = self._standby, self._pace.now() + self._busy_timeout_s
        watch, lapsed = Watch(self._pace.now), None
        while not self._dialect.claim(connection):
            if self._dialect.leased:
                terms = self._terms(connection)
                if lapsed is not None and terms is not None and terms.number != lapsed.number:
                    lapsed = None  # another newcomer was faster
                if lapsed is None and watch.lapsed(terms):
                    lapsed, deadline = terms, max(deadline, self._pace.now())
                    self._end_lost(connection)
                if standby is not None:
                    self._see(standby, connection, terms, watch.silent_s)
            if self._pace.now() >= deadline and lapsed is None and standby is None:
                raise Conflict(
                    f"another cluster uses the store {self._dialect}{self._holder(connection)}",
                    field=FIELD,
                    hint="stop it, or give this one a store of its own",
                )
            if self._pace.now() >= deadline + _LET_GO_S and lapsed is not None:
                raise Unavailable(
                    f"the server of the store {self._dialect} does not end the session of a"
                    f" cluster that is lost{self._holder(connection)}",
                    field=FIELD,
                    hint="end it by hand, or let this user end sessions of its own",
                )
            if standby is not None and standby.stopping:
                raise Unavailable("this standby is being stopped", field=FIELD)
            idle = standby is not None and lapsed is None
            self._pace.sleep(_STANDBY_ASKS_S if idle else _ASK_AGAIN_S)
        return lapsed

    def _see(
        self, standby: Standby, connection: Connection, terms: Terms | None, silent_s: float
    ) -> None:
        try:
            with connection.begin():
                rows = connection.execute(
                    select(schema.meta.c.name, schema.meta.c.value).where(_SEEN)
                )
                known = {name: str(value) for name, value in rows}
        except self._dialect.errors:  # it is just being made
            return
        number, address = (0, "") if terms is None else (terms.number, terms.address)
        leader = Leader(
            number, who(known.get("writer", "")), address, known.get("id", ""), silent_s
        )
        standby.sees(leader, self._pace.now())

    def _terms(self, connection: Connection) -> Terms | None:
        try:
            with connection.begin():
                return read_terms(connection)
        except self._dialect.errors:  # it is just being made
            return None

    def _end_lost(self, connection: Connection) -> None:
        """The claim of a holder that has not renewed its lease ends with its session, and with
        whatever it was committing."""
        log.warning(
            "the cluster that has the store is lost, and its session is ended",
            store=str(self._dialect),
            holder=self._holder(connection).removeprefix(": "),
        )
        self._end_claimant(connection)

    def _end_claimant(self, connection: Connection, only: int | None = None) -> bool:
        """Whether there was one, and it may have been ended; `only` that."""
        try:
            number = self._dialect.claimant(connection)
            if number is None or (only is not None and number != only):
                return False
            self._dialect.end_session(connection, number)
        except self._dialect.errors as error:
            connection.rollback()
            log.warning("a session was not ended", reason=self._dialect.trouble(error).reason)
            return False
        return True

    def ensure(self) -> None:
        """Have a connection that holds the claim, and know what was committed last."""
        if self._connection is not None:
            return
        former = self._session
        try:
            connection = self._connect()
            if not self._dialect.claim(connection) and not self._reclaim(connection, former):
                raise Unavailable(
                    f"the server of the store {self._dialect} still holds our former connection",
                    field=FIELD,
                    hint="it notices by and by that nobody is there; try again",
                )
            self._settle(connection)
        except BaseException:
            self.close()
            raise

    def ask(self) -> None:
        """Make sure that the connection lives, or that another takes its place."""
        if self._connection is not None:
            try:
                with self._connection.begin():
                    current_sequence(self._connection)
            except self._dialect.errors:
                self.close()
        self.ensure()

    def carry_out(self, attempt: Attempt[Any], now: float) -> None:
        connection = self._connection
        assert connection is not None
        attempt.fence = self._next_fence()
        try:
            with connection.begin() as transaction:
                self._replace_fence(connection, attempt.fence)
                write = Write(connection, self._dialect, now, self._known(connection))
                attempt.after_commit, attempt.counted = write.after_commit, write.counted
                attempt.result = attempt.work(write)
                write.store_counters()
                self._doubt, attempt.in_doubt = attempt, True
                transaction.commit()
        except BaseException as error:
            lost = self._is_lost(error)
            if lost or attempt.in_doubt or connection.invalidated:
                self.close()  # what it was about to do is looked up when we are back
            if not lost and isinstance(error, self._dialect.errors):
                attempt.in_doubt = False  # the answer was no
            raise
        self._committed(attempt)

    def _reclaim(self, connection: Connection, former: int | None) -> bool:
        """Take the claim from our own former connection, which the server still believes in."""
        with connection.begin():
            self._refuse_stranger(_read_fence(connection))
        if former is None or not self._end_claimant(connection, only=former):
            return False
        deadline = self._pace.now() + _LET_GO_S
        while not self._dialect.claim(connection):
            if self._pace.now() >= deadline:
                return False
            self._pace.sleep(_ASK_AGAIN_S)
        return True

    def close(self) -> None:
        """Let go of the connection, and with it of the claim and of what is not committed."""
        driver, self._connection, self._driver = self._driver, None, None
        self._counters = None
        if driver is not None:
            with contextlib.suppress(Exception):  # it may be dead already
                driver.close()
            self._dialect.release()

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        connection.detach()  # in a pool the claim would outlive us
        self._connection, self._driver = connection, connection.connection.dbapi_connection
        self._dialect.make_writer(connection, self._busy_timeout_s)
        self._session = self._dialect.session(connection)
        return connection

    def _settle(self, connection: Connection) -> None:
        """Look up what was committed last: who still commits has locked the row."""
        with connection.begin():
            fence = _read_fence(connection, lock=True)
        attempt = self._doubt
        if attempt is not None and fence == attempt.fence:
            self._committed(attempt)
        elif fence != self._fence:
            raise TakenOver(who(fence))
        elif attempt is not None:
            self._doubt, attempt.in_doubt = None, False

    def _committed(self, attempt: Attempt[Any]) -> None:
        self._fence, self._doubt = attempt.fence, None
        attempt.in_doubt, attempt.committed = False, True
        if self._counters is not None:
            self._counters.update(attempt.counted)
        for effect in attempt.after_commit:
            effect()

    def _known(self, connection: Connection) -> dict[str, int]:
        """The counters; read once for each connection, behind the fence."""
        if self._counters is None:
            rows = connection.execute(select(_counters.c.name, _counters.c.value))
            self._counters = {name: value for name, value in rows}
        return self._counters

    def _replace_fence(self, connection: Connection, fence: str) -> None:
        if connection.execute(_REPLACED, {"ours": self._fence, "next": fence}).rowcount != 1:
            raise TakenOver(who(_read_fence(connection)))

    def _refuse_stranger(self, fence: str) -> None:
        if self._token not in fence:
            raise TakenOver(who(fence))

    def _next_fence(self) -> str:
        self._serial += 1
        return f"{self._serial} {self._token} {own_process()}"

    def _holder(self, connection: Connection) -> str:
        try:
            with connection.begin():
                return f": {who(_read_fence(connection))}"
        except self._dialect.errors:  # it is just being made
            return ""

    def _is_lost(self, error: BaseException) -> bool:
        if not isinstance(error, self._dialect.errors):
            return False
        return self._dialect.trouble(error).kind is Kind.LOST


def _read_fence(connection: Connection, *, lock: bool = False) -> str:
    """The fence that the store bears now."""
    query = select(schema.meta.c.value).where(_FENCE)
    return str(connection.execute(query.with_for_update() if lock else query).scalar() or "")
