"""Records what happens in a running broker, for the lab: fixed-size records into a bounded buffer.

A recording must never slow or break delivery. So a record costs one packing of numbers; a full
buffer drops records, counts them, and afterwards writes the present state anew; a mistake in here
ends the recording and nothing else. Names and parameters are never written: subscribers,
subscriptions, backend subscriptions and pages become small numbers, in the order in which they
appear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, ParamSpec

import structlog

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Answer
from tocsin.broker.machine.subscription_table import Backend, Frontend
from tocsin.broker.machine.watching import NOBODY, Watcher
from tocsin.model import Result
from tocsin.protocol.trace import (
    ACK,
    ARRIVE,
    GET,
    LEAVE,
    LOST,
    OPEN,
    OUTDATED,
    PAGE,
    PUBLISH,
    QUIET,
    RECORD,
    SIZE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    TraceRecord,
)

log = structlog.get_logger()

MOST_BYTES = 16_000_000
CHUNK_BYTES = 64_000  # of the state, between two turns of the event loop

_DONE = object()

P = ParamSpec("P")


class _Order:
    """Numbers a backend subscription's results. What came before the recording is 0 and below."""

    __slots__ = ("base", "epoch", "last", "number", "sized", "unsized")

    def __init__(self, number: int, epoch: str, base: int) -> None:
        self.number = number
        self.epoch = epoch
        self.base = base
        self.last = 0  # the newest
        self.unsized = False  # some were passed over without a look
        self.sized = 0  # of these, up to where sizes were told since


def _contained(
    method: Callable[Concatenate[Recorder, P], None],
) -> Callable[Concatenate[Recorder, P], None]:
    """A recorder that fails stops recording; whoever told it something never notices."""

    def recorded(self: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.open:
            try:
                method(self, *args, **kwargs)
            except Exception:
                log.exception("a recording failed")
                self.end()

    return recorded


class Recorder(Watcher):
    """Watches a core and packs what it sees. `take` empties the buffer. Results of filters are left
    out: the lab's result caches know one position after the other."""

    def __init__(
        self,
        core: BrokerCore,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.open = True
        self._clock = clock
        self._most_bytes = most_bytes
        self._chunk_bytes = min(CHUNK_BYTES, most_bytes)
        self._buffer = bytearray()
        self._lost = 0
        self._began_at: float | None = None  # time stands at 0 until the first state is written
        self._subscribers: dict[str, int] = {}
        self._subscriptions: dict[Frontend, int] = {}  # attached, and written to be
        self._subscription_count = 0
        self._online: set[str] = set()  # written to be
        self._orders: dict[int, _Order] = {}
        self._pages: dict[str, int] = {}
        self._table = core.table
        self._table.watcher = self
        self._alignment: Iterator[None] | None = self._align()

    def end(self) -> None:
        self.open = False
        self._table.watcher = NOBODY

    @property
    def aligned(self) -> bool:
        """Does what was written tell the present state?"""
        return self._alignment is None and not self._lost

    def take(self) -> bytes:
        """What was recorded since, and a part of the state if that is not written yet."""
        taken, self._buffer = self._buffer, bytearray()
        if self._lost:
            lost, self._lost = self._lost, 0
            self._write(TraceRecord(LOST, position=lost))
            self._alignment = self._align()
        while self._alignment is not None and len(self._buffer) < self._chunk_bytes:
            if next(self._alignment, _DONE) is _DONE:
                self._alignment = None
                if self._began_at is None:
                    self._began_at = self._clock()
        taken += self._buffer
        self._buffer.clear()
        return bytes(taken)

    def quiet(self) -> None:
        self._write(TraceRecord(QUIET))

    # -- the present state ----------------------------------------------------------------------

    def _align(self) -> Iterator[None]:
        """Write what is missing for the trace to tell the core's state, little by little. What
        happens meanwhile is written as it comes, and found in line here."""
        table = self._table
        for frontend in list(self._subscriptions):
            if table.frontends.get(frontend.id) is not frontend:
                self.detached(frontend)
                yield
        for name in list(self._online):
            if not table.of(name).connections:
                self.left(name)
                yield
        for frontend in list(table.frontends.values()):
            if table.frontends.get(frontend.id) is frontend:
                self.attached(frontend)
                yield
        for name in list(table.subscribers):
            if table.of(name).connections:
                self.arrived(name)
                yield

    def _known(self, frontend: Frontend) -> int:
        """The number of an attached subscription; written now, if it was not yet."""
        number = self._subscriptions.get(frontend)
        if number is None:
            number = self._subscription_count
            order = self._order(frontend.backend)
            if self._write(
                TraceRecord(
                    SUBSCRIBE,
                    self._subscriber(frontend.subscriber),
                    number,
                    order.number,
                    position=frontend.marker - order.base,
                )
            ):
                self._subscriptions[frontend] = number
                self._subscription_count += 1
        return number

    def _subscriber(self, name: str) -> int:
        return self._subscribers.setdefault(name, len(self._subscribers))

    def _order(self, backend: Backend) -> _Order:
        order = self._orders.get(backend.id)
        if order is None:
            order = _Order(len(self._orders), backend.epoch, backend.fetched)
            self._orders[backend.id] = order
        elif order.epoch != backend.epoch:  # positions began anew; in the trace they go on
            order.epoch, order.base = backend.epoch, -order.last
        return order

    # -- what the core tells ----------------------------------------------------------------------

    @_contained
    def attached(self, frontend: Frontend) -> None:
        if frontend.backend.filter is None:
            self._known(frontend)

    @_contained
    def detached(self, frontend: Frontend) -> None:
        number = self._subscriptions.get(frontend)
        if number is not None and self._write(TraceRecord(UNSUBSCRIBE, subscription=number)):
            del self._subscriptions[frontend]

    @_contained
    def arrived(self, subscriber: str) -> None:
        if subscriber not in self._online and self._write(
            TraceRecord(ARRIVE, self._subscriber(subscriber))
        ):
            self._online.add(subscriber)

    @_contained
    def left(self, subscriber: str) -> None:
        if subscriber in self._online and self._write(
            TraceRecord(LEAVE, self._subscriber(subscriber))
        ):
            self._online.discard(subscriber)

    @_contained
    def taken(self, backend: Backend, results: Sequence[Result]) -> None:
        if backend.filter is not None:
            return
        order = self._order(backend)
        sent = len(backend.inline)
        for result in results:
            place = order.last = result.position - order.base
            self._write(
                TraceRecord(
                    PUBLISH,
                    backend=order.number,
                    after=place - 1,
                    position=place,
                    size_bytes=result.size_bytes,
                    hits=sent,
                    hit_bytes=sent * result.size_bytes,
                )
            )

    @_contained
    def passed_over(self, backend: Backend, upto: int) -> None:
        if backend.filter is not None:
            return
        order = self._order(backend)
        after = backend.fetched - order.base
        order.last = upto - order.base
        if order.last > after:
            order.unsized = True
            self._write(
                TraceRecord(PUBLISH, backend=order.number, after=after, position=order.last)
            )

    @_contained
    def answered(self, answer: Answer) -> None:
        frontend = self._table.frontends.get(answer.subscription)
        if frontend is None or frontend.backend.filter is not None or not answer.results:
            return
        order = self._order(frontend.backend)
        fetched = answer.results[: answer.fetched + answer.from_neighbours]
        if order.unsized:
            self._tell_sizes(order, fetched)
        whole_bytes = sum(result.size_bytes for result in answer.results)
        miss_bytes = sum(result.size_bytes for result in fetched)
        self._write(
            TraceRecord(
                GET,
                self._subscriber(frontend.subscriber),
                self._known(frontend),
                order.number,
                after=answer.results[0].position - 1 - order.base,
                position=answer.upto - order.base,
                hits=answer.cached,
                hit_bytes=whole_bytes - miss_bytes,
                misses=len(fetched),
                miss_bytes=miss_bytes,
            )
        )

    @_contained
    def acknowledged(self, frontend: Frontend) -> None:
        if frontend.backend.filter is not None:
            return
        order = self._order(frontend.backend)
        self._write(
            TraceRecord(
                ACK,
                self._subscriber(frontend.subscriber),
                self._known(frontend),
                order.number,
                position=frontend.marker - order.base,
            )
        )

    @_contained
    def page_published(self, page: str, size_bytes: int, subscriptions: int) -> None:
        number = self._page(page)
        self._write(TraceRecord(PAGE, after=subscriptions, position=number, size_bytes=size_bytes))

    @_contained
    def page_requested(self, page: str, size_bytes: int, notification: bool, hit: bool) -> None:
        self._write(
            TraceRecord(
                OPEN,
                after=notification,
                position=self._page(page),
                size_bytes=size_bytes,
                hits=hit,
                hit_bytes=hit * size_bytes,
                misses=not hit,
                miss_bytes=(not hit) * size_bytes,
            )
        )

    @_contained
    def page_superseded(self, page: str, is_so: bool) -> None:
        self._write(TraceRecord(OUTDATED, after=not is_so, position=self._page(page)))

    def _page(self, page: str) -> int:
        return self._pages.setdefault(page, len(self._pages))

    def _tell_sizes(self, order: _Order, results: Sequence[Result]) -> None:
        for result in results:
            place = result.position - order.base
            if place > order.sized:
                order.sized = place
                self._write(
                    TraceRecord(
                        SIZE, backend=order.number, position=place, size_bytes=result.size_bytes
                    )
                )

    def _write(self, record: TraceRecord) -> bool:
        """False if there was no room. One lost, all are until the buffer is taken: so there is one
        hole, and the state is written after it."""
        if len(self._buffer) >= self._most_bytes:
            self._lost += 1
            return False
        at_s = 0.0 if self._began_at is None else self._clock() - self._began_at
        self._buffer += RECORD.pack(at_s, *record)
        return True
