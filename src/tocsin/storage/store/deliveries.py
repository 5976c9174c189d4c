"""What deliveries read: a channel's results in the order in which they were committed, and who
consumes them. Writes nothing; how far a delivery has come is not the store's business."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import Connection, select

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, reads
from tocsin.storage.store.subscription_rows import chunks

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions
_results = schema.results

_COLUMNS = (
    _results.c.number,
    _results.c.backend,
    _results.c.position,
    _results.c.created_at,
    _results.c.record,
    _results.c.payload,
    _backend.c.arguments,
)


class Deliverable(NamedTuple):
    """A result as a delivery sees it; `arguments` is JSON."""

    number: int
    backend: int
    position: int
    created_at: float
    record: int | None
    payload: bytes
    arguments: str


class Batch(Struct, frozen=True):
    """The results after a number, and the number up to which there are no more of them. `all_`:
    there were none after that at the moment of reading."""

    results: list[Deliverable]
    upto: int
    all_: bool


class Consumer(NamedTuple):
    """A frontend subscription: results after `marker` are for it."""

    subscription: int
    channel: str
    backend: int
    marker: int
    head: int
    subscriber: str


class Deliveries:
    def __init__(self, database: Database) -> None:
        self._database = database

    @reads
    def last_number(self, connection: Connection) -> int:
        return int(connection.execute(_LAST).scalar_one())

    @reads
    def read(self, connection: Connection, channel: str, after: int, limit: int) -> Batch:
        """The channel's next results, about `limit`: those of one commit are never torn apart."""
        query = (
            select(*_COLUMNS)
            .join_from(_results, _backend, _results.c.backend == _backend.c.id)
            .where(_backend.c.channel == channel)
            .order_by(_results.c.number)
        )
        last = int(connection.execute(_LAST).scalar_one())
        rows = connection.execute(query.where(_results.c.number > after).limit(limit))
        results = [Deliverable(*row) for row in rows]
        if len(results) < limit:
            return Batch(results, max(last, after), True)
        tail = results[-1]
        rest = query.where(
            _results.c.number > tail.number, _results.c.created_at == tail.created_at
        )
        results += [Deliverable(*row) for row in connection.execute(rest)]
        return Batch(results, results[-1].number, False)

    @reads
    def consumers(
        self, connection: Connection, channel: str, backends: Collection[int] | None = None
    ) -> list[Consumer]:
        """Everybody who consumes the channel, or those of some backend subscriptions."""
        query = _CONSUMERS.where(_backend.c.channel == channel)
        if backends is None:
            return [Consumer(*row) for row in connection.execute(query)]
        return [
            Consumer(*row)
            for chunk in chunks(sorted(backends))
            for row in connection.execute(query.where(_backend.c.id.in_(chunk)))
        ]

    @reads
    def consumers_by_id(
        self, connection: Connection, subscriptions: Collection[int]
    ) -> list[Consumer]:
        return [
            Consumer(*row)
            for chunk in chunks(sorted(subscriptions))
            for row in connection.execute(_CONSUMERS.where(_frontend.c.id.in_(chunk)))
        ]


_LAST = select(schema.counters.c.value).where(schema.counters.c.name == schema.RESULT_COUNTER)
_CONSUMERS = (
    select(
        _frontend.c.id,
        _backend.c.channel,
        _backend.c.id,
        _frontend.c.marker,
        _backend.c.head,
        _frontend.c.subscriber,
    )
    .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
    .order_by(_frontend.c.id)
)
