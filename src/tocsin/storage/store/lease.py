"""The lease on a store that has a server: who may act for it, also outside of it.

The claim (`dialect.claim`) lives as long as the server believes in a session, and a server believes
for hours in a host that is gone without a word. So whoever holds the claim also renews a lease: a
row with the holder's *number* and a beat that counts on. The number grows by one whenever the
store is taken. Who wants the store, and sees no beat for the length of the lease, ends the holder's
session.

No clock is compared with another: a newcomer measures by its own steady clock how long the row
stays as it is, and the holder measures from when it *sent* its last renewal, and stops a little
earlier. In between nobody acts. Writes need none of this: the fence in each transaction refuses
those of a former holder (`writer`). What has no such fence (Kafka, an object store) asks `held`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import structlog
from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from tocsin.errors import NotLeading, Unavailable
from tocsin.storage.store import schema
from tocsin.storage.store.dialect import FIELD, Dialect
from tocsin.storage.store.pace import Pace, Threads
from tocsin.storage.store.places import is_gone, own_place

log = structlog.get_logger()

LEASE_S = 5.0
HELD = 0.8  # of the length: so much earlier a holder stops, for clocks that run unevenly
_BEATS = 5  # within the length
_OURS = schema.meta.c.name == "lease"
_RENEWED = (
    update(schema.meta)
    .where(_OURS, schema.meta.c.value == bindparam("ours"))
    .values(value=bindparam("next"))
)


class TakenOver(Exception):
    """Another has the store now; says which."""


class Terms(NamedTuple):
    """The row. Without a place nobody holds the lease: it was given back. `address` is where the
    holder is called."""

    number: int
    beat: int
    length_s: float
    place: str
    address: str = ""

    @classmethod
    def decode(cls, text: str) -> Self:
        number, beat, length_s, place, address = [*text.split(" "), "", ""][:5]
        return cls(int(number), int(beat), float(length_s), place, address)

    def encode(self) -> str:
        held = f" {self.place} {self.address}".rstrip() if self.place else ""
        return f"{self.number} {self.beat} {self.length_s!r}{held}"


class Watch:
    """A newcomer's: has the holder stopped? Looks that see the same beat, as long apart as the
    lease, say that there was no renewal between them, whatever happened to the newcomer itself."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._seen: Terms | None = None
        self._since = 0.0

    @property
    def silent_s(self) -> float:
        """For how long the same was seen."""
        return self._steady() - self._since

    def lapsed(self, terms: Terms | None) -> bool:
        now = self._steady()
        if terms != self._seen:
            self._seen, self._since = terms, now
        if terms is None or not terms.place:  # a holder that keeps no lease: an older Tocsin
            return False
        return now - self._since >= terms.length_s


def read_terms(connection: Connection, *, lock: bool = False) -> Terms | None:
    query = select(schema.meta.c.value).where(_OURS)
    text = connection.execute(query.with_for_update() if lock else query).scalar()
    return None if text is None else Terms.decode(text)


class Lease:
    """The holder's. Safe to call from any thread. A file that the system locks needs none: the lock
    ends with the process, and not before, so it is held as long as the store is open."""

    def __init__(
        self,
        dialect: Dialect,
        length_s: float = LEASE_S,
        on_taken: Callable[[TakenOver], None] = lambda _: None,
        pace: Pace | None = None,
        address: str = "",
    ) -> None:
        """`on_taken` is called, on the lease's own thread, when another has the store. `address`:
        where whoever holds it through this is called."""
        self._address = address
        self._dialect = dialect
        self.length_s = length_s
        self._on_taken = on_taken
        self._pace = pace or Threads()
        self._steady = self._pace.now
        self._was_held = True
        self._terms: Terms | None = None
        self._sent_at = 0.0  # of the last renewal that was confirmed
        self._taken: TakenOver | None = None
        self._ended = False
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._renewing = threading.Lock()
        self._changed = threading.Condition()
        self.on_lapse: Callable[[], None] = lambda: None

    @property
    def number(self) -> int:
        """Grows by one whenever the store is taken; 0 where there is no lease."""
        return 0 if self._terms is None else self._terms.number

    @property
    def held(self) -> bool:
        """Whether nobody else can have taken the store until now."""
        if self._ended or self._taken is not None:
            return False
        return self._terms is None or self._left_s() > 0

    @property
    def trouble(self) -> str | None:
        """Why this cluster may not act now; None: it may."""
        if self._taken is not None:
            return f"another cluster has taken over the store: {self._taken}"
        return None if self.held else "the lease on the store could not be renewed in time"

    def require(self) -> None:
        """Raise NotLeading unless it is held, as far as is known here."""
        if not self.held:
            raise NotLeading(
                self.trouble or "the lease on the store was given back",
                field=FIELD,
                hint="see that the store's server can be reached; Tocsin goes on trying",
            )

    def confirm(self) -> None:
        """Raise Unavailable unless it is held, as the store itself says now."""
        since = self._steady()
        if self._terms is not None and not self._ended:
            with contextlib.suppress(*self._dialect.errors):
                self._renew()
            if self._taken is None and self._sent_at < since:
                raise Unavailable(
                    "the lease on the store could not be renewed now",
                    field=FIELD,
                    hint="see that the store's server can be reached; Tocsin goes on trying",
                )
        self.require()

    def take(self, connection: Connection) -> Terms | None:
        """Write ourselves down; who held it before, if somebody did. The caller has the claim."""
        if not self._dialect.leased:
            return None
        sent_at = self._steady()
        with connection.begin():
            former = read_terms(connection, lock=True)
            number = 1 if former is None else former.number + 1
            terms = Terms(number, 0, self.length_s, own_place(), self._address)
            if former is None:
                row = {"name": "lease", "value": terms.encode()}
                connection.execute(insert(schema.meta), row)
            else:
                put = update(schema.meta).where(_OURS).values(value=terms.encode())
                connection.execute(put)
        self._terms, self._sent_at = terms, sent_at
        self._engine = self._dialect.quick_engine(self.length_s)
        self._pace.repeat("lease_beat", self.length_s / _BEATS, self._beat, self._pause)
        self._pace.repeat("lease_watch", self._next_look_s(), self._watch, self._pause)
        return former

    def outlast(self, former: Terms | None) -> None:
        """Return when nobody acts by a former lease any more."""
        if former is not None and former.place and not is_gone(former.place):
            self._pace.sleep(former.length_s)

    def end(self) -> None:
        """Give it back: nobody has to wait for it."""
        with self._changed:
            if self._ended:
                return
            self._ended = True
            self._changed.notify_all()
        if self._terms is None:
            return
        in_time = threading.Timer(self.length_s / _BEATS, self._hang_up)
        in_time.start()
        assert self._engine is not None
        try:
            with self._renewing:
                if self._taken is None and self._left_s() > 0:
                    with contextlib.suppress(Exception):
                        self._put(self._terms._replace(place="", address=""))
        finally:
            self._disconnect()
            in_time.cancel()
            self._engine.dispose()

    def _left_s(self) -> float:
        return self._sent_at + HELD * self.length_s - self._steady()

    # The threads: one renews, and may wait for a server that is silent; the other notices that.

    def _beat(self) -> float | None:
        try:
            self._renew()
        except self._dialect.errors as error:
            reason = self._dialect.trouble(error).reason
            log.warning("the lease on the store is not renewed", reason=reason)
        except Exception as error:  # it must not end while the store is open
            log.exception("the lease on the store is not renewed", reason=str(error))
        if self._taken is not None:
            self.on_lapse()
            self._on_taken(self._taken)
            return None
        return self.length_s / _BEATS

    def _watch(self) -> float | None:
        if self._taken is not None:
            return None
        held = self.held
        if self._was_held and not held:
            log.warning("the lease on the store has lapsed", number=self.number)
            self.on_lapse()
        if held and not self._was_held:
            log.info("the lease on the store is renewed", number=self.number)
        if not held:
            self._hang_up()
        self._was_held = held
        return self._next_look_s()

    def _next_look_s(self) -> float:
        return max(self._left_s(), self.length_s / (2 * _BEATS))

    def _pause(self, seconds: float) -> bool:
        """Whether it ended meanwhile."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    def _renew(self) -> None:
        with self._renewing:
            terms = self._terms
            if terms is None or self._taken is not None or self._ended:
                return
            try:
                self._put(terms._replace(beat=terms.beat + 1))
            except BaseException:
                self._disconnect()
                raise

    def _put(self, next_: Terms) -> None:
        assert self._terms is not None
        assert self._engine is not None
        if self._connection is None:
            self._connection = self._engine.connect()
        connection, sent_at = self._connection, self._steady()
        with connection.begin():
            values = {"ours": self._terms.encode(), "next": next_.encode()}
            done = connection.execute(_RENEWED, values).rowcount == 1
            there = next_ if done else read_terms(connection)
            holder = "" if done else _holder(connection)
        if there is None or there.number != self._terms.number:
            self._taken = TakenOver(holder)
        else:  # the answer to an earlier renewal may have been lost
            self._terms = there
            if done:
                self._sent_at = sent_at

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.invalidate()
                connection.close()

    def _hang_up(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(Exception):
                driver: Any = connection.connection.dbapi_connection
                self._dialect.hang_up(driver)


def who(fence: str) -> str:
    """The part of a fence that is for people."""
    return fence.split(" ", 2)[-1] or "nobody knows which"


def _holder(connection: Connection) -> str:
    query = select(schema.meta.c.value).where(schema.meta.c.name == "writer")
    return who(str(connection.execute(query).scalar() or ""))
