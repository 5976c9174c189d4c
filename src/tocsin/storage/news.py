"""What a broker must hear: new heads, and the subscriptions that left it, by moving or ending.

A broker asks with the sequence it has seen. Whatever was committed later is told, if need be
twice, so that a lost notice delays but never loses. Departures are remembered for a day: a broker
that was away for longer starts anew with the list of its subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from tocsin.model import Departure, Head, Subscription
from tocsin.storage import schema
from tocsin.storage.database import Write, current_sequence
from tocsin.storage.names import require
from tocsin.storage.subscription_rows import chunks

DETACHMENTS_KEPT_S = 86_400.0

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions
_detachments = schema.detachments


News = tuple[int, list[Head], list[Departure]]
"""(sequence, heads, detached): what changed for a broker, up to `sequence`."""


def news(connection: Connection, broker: str, since: int) -> News:
    """What changed for the broker after `since`."""
    require(connection, "broker", broker)
    sequence = current_sequence(connection)  # read first: what is newer than it is told twice
    columns = (_backend.c.id, _backend.c.epoch, _backend.c.head)
    here = _frontend.c.broker == broker
    grown = (
        select(*columns)
        .where(_backend.c.sequence > since)
        .where(_backend.c.id.in_(select(_frontend.c.backend).where(here)))
    )
    # A subscription that arrived meanwhile may bring a head that the broker has never heard.
    arrived = select(*columns).where(
        _backend.c.id.in_(select(_frontend.c.backend).where(here, _frontend.c.sequence > since))
    )
    rows = {row.id: row for query in (grown, arrived) for row in connection.execute(query)}
    heads = [Head(row.id, row.epoch, row.head) for _, row in sorted(rows.items())]
    # One that is still there has moved; ids are not reused, so one that is not has ended.
    left = (
        select(_detachments.c.subscription, _frontend.c.broker)
        .join_from(
            _detachments,
            _frontend,
            _frontend.c.id == _detachments.c.subscription,
            isouter=True,
        )
        .where(_detachments.c.broker == broker, _detachments.c.sequence > since)
        .distinct()
        .order_by(_detachments.c.subscription)
    )
    return sequence, heads, [Departure(*row) for row in connection.execute(left)]


def detach(write: Write, leaving: Sequence[Subscription]) -> None:
    """Remember that these leave the brokers they are on."""
    rows = [
        {
            "broker": one.broker,
            "subscription": one.id,
            "sequence": write.sequence(),
            "at": write.now,
        }
        for one in leaving
        if one.broker is not None
    ]
    if rows:
        write.connection.execute(insert(_detachments), rows)


def arrive(write: Write, moving: Sequence[Subscription], broker: str) -> None:
    """Put these on the broker; that they had left it once must not be told any more."""
    sequence = write.sequence()
    for some in chunks([one.id for one in moving]):
        write.connection.execute(
            delete(_detachments).where(
                _detachments.c.broker == broker, _detachments.c.subscription.in_(some)
            )
        )
        write.connection.execute(
            update(_frontend)
            .where(_frontend.c.id.in_(some))
            .values(broker=broker, sequence=sequence)
        )


def prune(connection: Connection, now: float) -> None:
    connection.execute(delete(_detachments).where(_detachments.c.at < now - DETACHMENTS_KEPT_S))
