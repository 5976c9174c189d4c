"""A store that was restored from a backup begins a new incarnation.

What it gave out after the backup was made (positions, ids, numbers of commits) is known to brokers,
clients and Kafka, and must not mean something else now. So its counters go on far behind them, its
backend subscriptions get new epochs, and brokers are told of another store. Positions of routed
datasets stay as they are: they are the log's.

That it was restored shows beside it: the data directory has a note of how far the store was.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, insert, not_, select, update

from tocsin import durable
from tocsin.model import FILTERED
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes

NOTE = "store-seen"
GAP = 1_000_000  # more than a store counts between two notes

_meta, _counters, _backends = schema.meta, schema.counters, schema.backend_subscriptions
_NUMBER = _meta.c.name == "incarnation"
_NEW_EPOCH = (
    update(_backends).where(_backends.c.id == bindparam("backend")).values(epoch=bindparam("to"))
)


class Seen(Struct, frozen=True):
    """How far a store was."""

    store: str
    incarnation: int
    counters: dict[str, int]

    def is_ahead_of(self, other: Seen) -> bool:
        """Whether the other is the same store as it was before. Counters that only this one knows
        are of an older version."""
        if self.store != other.store or self.incarnation < other.incarnation:
            return False
        return self.incarnation > other.incarnation or any(
            value > other.counters.get(name, value) for name, value in self.counters.items()
        )


def read_note(data: Path) -> Seen | None:
    try:
        return msgspec.json.decode((data / NOTE).read_bytes(), type=Seen)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_note(data: Path, seen: Seen) -> None:
    durable.write(data / NOTE, msgspec.json.encode(seen))


class Incarnation:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def name(self) -> str:
        """By which brokers and clients know the store."""
        number = self.seen().incarnation
        return self._database.id if number == 0 else f"{self._database.id}.{number}"

    @reads
    def seen(self, connection: Connection) -> Seen:
        counters = {name: value for name, value in connection.execute(select(_counters))}
        return Seen(self._database.id, _number(connection), counters)

    def follow(self, note: Seen | None) -> bool:
        """Begin a new incarnation if the note is ahead of the store; whether it was."""
        seen = self.seen()
        if note is None or not note.is_ahead_of(seen):
            return False
        self.begin(note)
        return True

    @writes
    def begin(self, write: Write, note: Seen, *, with_log: bool = False) -> None:
        """`note`: how far it was. `with_log`: so were the logs, and their positions are given
        again."""
        connection, number = write.connection, 1 + max(_number(write.connection), note.incarnation)
        chosen = select(_backends.c.id).order_by(_backends.c.id)
        if not with_log:
            chosen = chosen.where(not_(_backends.c.channel.startswith(FILTERED, autoescape=True)))
        backends = connection.scalars(chosen).all()
        if backends:
            anew = [{"backend": backend, "to": secrets.token_hex(8)} for backend in backends]
            write.lock_backends(backends)
            connection.execute(_NEW_EPOCH, anew)
        for name, value in write.lock_counters().items():
            write.count(name, max(value, note.counters.get(name, 0)) + GAP)
        if connection.execute(update(_meta).where(_NUMBER).values(value=str(number))).rowcount == 0:
            connection.execute(insert(_meta), {"name": "incarnation", "value": str(number)})


def _number(connection: Connection) -> int:
    return int(connection.execute(select(_meta.c.value).where(_NUMBER)).scalar() or 0)
