"""How frontend and backend subscriptions are read from their tables. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, select

from tocsin.errors import NotFound
from tocsin.model import Arguments, BackendSubscription, Subscription
from tocsin.storage.store import schema

_Item = TypeVar("_Item")

_CHUNK = 1000  # databases limit how many values one statement may carry

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions

_BACKEND_COLUMNS = (
    _backend.c.id.label("backend_id"),
    _backend.c.channel,
    _backend.c.arguments,
    _backend.c.epoch,
    _backend.c.head,
    _backend.c.floor,
    _backend.c.since,
)
_JOINED = select(
    _frontend.c.id,
    _frontend.c.subscriber,
    _frontend.c.broker,
    _frontend.c.marker,
    *_BACKEND_COLUMNS,
).join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)


def canonical(arguments: Arguments) -> str:
    """The one text of a parameter set: equal arguments give equal texts."""
    return msgspec.json.encode(arguments, order="deterministic").decode()


def backend_hash(channel: str, arguments: str) -> str:
    return blake2b(msgspec.json.encode([channel, arguments]), digest_size=16).hexdigest()


def chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]


def backends_with(connection: Connection, hashes: Sequence[str]) -> dict[str, BackendSubscription]:
    """Those of the hashes that are there."""
    backends = {}
    for chunk in chunks(hashes):
        query = select(_backend.c.hash, *_BACKEND_COLUMNS).where(_backend.c.hash.in_(chunk))
        for row in connection.execute(query):
            backends[row.hash] = _as_backend(row)
    return backends


def subscriptions_where(connection: Connection, *conditions: Any) -> list[Subscription]:
    """Frontend subscriptions by id; those that share a backend subscription share its object."""
    backends: dict[int, BackendSubscription] = {}
    subscriptions = []
    for row in connection.execute(_JOINED.where(*conditions).order_by(_frontend.c.id)):
        backend = backends.get(row.backend_id)
        if backend is None:
            backend = backends[row.backend_id] = _as_backend(row)
        subscriptions.append(Subscription(row.id, row.subscriber, row.broker, backend, row.marker))
    return subscriptions


def subscriptions_with(connection: Connection, numbers: Sequence[int]) -> list[Subscription]:
    """Those of the numbers that are there."""
    subscriptions = []
    for chunk in chunks(numbers):
        subscriptions += subscriptions_where(connection, _frontend.c.id.in_(chunk))
    return subscriptions


def subscription(
    connection: Connection, number: int, subscriber: str | None = None
) -> Subscription:
    """A frontend subscription; that of another subscriber is not found."""
    subscriptions = subscriptions_where(connection, _frontend.c.id == number)
    if not subscriptions or (subscriber is not None and subscriptions[0].subscriber != subscriber):
        raise NotFound(
            f"there is no subscription {number}" + (f" of {subscriber}" if subscriber else ""),
            field="subscription",
            hint="SHOW SUBSCRIPTIONS lists them",
        )
    return subscriptions[0]


def _as_backend(row: Any) -> BackendSubscription:
    return BackendSubscription(
        id=row.backend_id,
        channel=row.channel,
        arguments=msgspec.json.decode(row.arguments),
        epoch=row.epoch,
        head=row.head,
        floor=row.floor,
        since=row.since,
    )
