"""What a broker must learn: new heads, and the subscriptions that left it, by moving or ending.

A broker asks with the sequence it has seen. The answer has whatever was committed later, twice if
need be, so that a lost notice delays but never loses. Departures are remembered for a day: a broker
that was away for longer starts anew with the list of its subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    CompoundSelect,
    Connection,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    null,
    select,
    union_all,
    update,
)

from tocsin.model import Departure, Head, Subscription
from tocsin.storage.store import schema
from tocsin.storage.store.database import Write
from tocsin.storage.store.names import missing
from tocsin.storage.store.subscription_rows import chunks

DETACHMENTS_KEPT_S = 86_400.0

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions
_detachments = schema.detachments
_brokers = schema.brokers
_counters = schema.counters


News = tuple[int, list[Head], list[Departure]]
"""(sequence, heads, detached): what changed for a broker, up to `sequence`."""

_HEAD, _LEFT, _SEQUENCE, _IS_KNOWN = range(4)  # kinds of rows in the answer


def _question(*, of_all: bool) -> CompoundSelect[Any]:
    """All in one statement, made once: it is asked again and again."""
    broker: BindParameter[str] = bindparam("broker")
    since: BindParameter[int] = bindparam("since")
    here = select(_frontend.c.backend).where(_frontend.c.broker == broker)
    heads = select(literal_column(str(_HEAD)), _backend.c.id, _backend.c.epoch, _backend.c.head)
    left = select(
        literal_column(str(_LEFT)), _detachments.c.subscription, _frontend.c.broker, null()
    ).join_from(
        _detachments, _frontend, _frontend.c.id == _detachments.c.subscription, isouter=True
    )
    sequence = select(literal_column(str(_SEQUENCE)), _counters.c.value, null(), null())
    known = select(literal_column(str(_IS_KNOWN)), null(), _brokers.c.name, null())
    # One by one: what is new is little, and what is here may be a million.
    is_here = exists().where(_frontend.c.backend == _backend.c.id, _frontend.c.broker == broker)
    grown = heads.where(_backend.c.sequence > since, is_here)
    return union_all(
        *([grown] if of_all else []),
        # A subscription that arrived meanwhile may bring a head that the broker has never heard.
        heads.where(_backend.c.id.in_(here.where(_frontend.c.sequence > since))),
        left.where(_detachments.c.broker == broker, _detachments.c.sequence > since),
        sequence.where(_counters.c.name == "sequence"),
        known.where(_brokers.c.name == broker),
    )


_QUESTION, _WHO_CAME = _question(of_all=True), _question(of_all=False)


def news(connection: Connection, broker: str, since: int, *, heads: bool = True) -> News:
    """What changed for the broker after `since`. Without `heads`, for who hears of every commit:
    who came and left, and the heads of those who came."""
    by_kind: list[dict[int, tuple[str, int]]] = [{}, {}, {}, {}]
    question = _QUESTION if heads else _WHO_CAME
    rows = connection.execute(question, {"broker": broker, "since": since}).all()
    for kind, number, *values in rows:
        by_kind[kind][number] = tuple(values)
    grown, left, sequences, known = by_kind
    if not known:
        raise missing("broker", broker)
    # One that is still there has moved; ids are not reused, so one that is not has ended.
    return (
        next(iter(sequences)),
        [Head(number, *values) for number, values in sorted(grown.items())],
        [Departure(number, to) for number, (to, _) in sorted(left.items())],
    )


def detach(write: Write, leaving: Sequence[Subscription]) -> None:
    """Remember that these leave the brokers they are on."""
    rows = [
        {
            "broker": subscription.broker,
            "subscription": subscription.id,
            "sequence": write.sequence(),
            "at": write.now,
        }
        for subscription in leaving
        if subscription.broker is not None
    ]
    if rows:
        write.connection.execute(insert(_detachments), rows)


def arrive(write: Write, moving: Sequence[Subscription], broker: str) -> None:
    """Put these on the broker; forget that they had left it once."""
    sequence = write.sequence()
    for chunk in chunks([subscription.id for subscription in moving]):
        write.connection.execute(
            delete(_detachments).where(
                _detachments.c.broker == broker, _detachments.c.subscription.in_(chunk)
            )
        )
        write.connection.execute(
            update(_frontend)
            .where(_frontend.c.id.in_(chunk))
            .values(broker=broker, sequence=sequence)
        )


def prune(connection: Connection, now: float) -> None:
    connection.execute(delete(_detachments).where(_detachments.c.at < now - DETACHMENTS_KEPT_S))
