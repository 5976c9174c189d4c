"""What channels in real-time mode found: stored once each, whatever was repeated on the way.

A match is known by its channel, its record and its backend subscription, so one that comes again is
dropped. How far the matches were read is stored in the same transaction as what they became.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, insert, select, update

from tocsin.storage import schema
from tocsin.storage.database import Database, Write, reads, writes
from tocsin.storage.runs import Committed, backends_of, store_results
from tocsin.storage.subscription_rows import chunks

_counters = schema.counters
_results = schema.results

RUN = "real-time"  # a channel in real-time mode has no runs of its own


class Match(NamedTuple):
    channel: str
    backend: int
    position: int  # of the record that matched, in its dataset's log
    payload: bytes

    @property
    def id(self) -> str:
        told = msgspec.json.encode([self.channel, self.position, self.backend])
        return blake2b(told, digest_size=16).hexdigest()


class Matches:
    def __init__(self, database: Database) -> None:
        self._database = database

    @reads
    def read_up_to(self, connection: Connection, source: str) -> int:
        """Up to where the matches of a source were taken."""
        asked = select(_counters.c.value).where(_counters.c.name == source)
        return int(connection.execute(asked).scalar() or 0)

    @writes
    def commit(
        self, write: Write, source: str, found: Sequence[Match], up_to: int
    ) -> list[Committed]:
        """Store what is new of them, in order, and that the source was read up to there.

        Results get the positions after the head of their backend subscription. Matches of backend
        subscriptions that are gone are dropped.
        """
        connection = write.connection
        known = _known(connection, [one.id for one in found])
        by_channel: dict[str, dict[str, Match]] = {}
        for one in found:
            if one.id not in known:
                by_channel.setdefault(one.channel, {})[one.id] = one
        _remember(connection, source, up_to)
        stored = [_store(write, channel, new) for channel, new in by_channel.items()]
        return [one for one in stored if one.count]


def _store(write: Write, channel: str, new: dict[str, Match]) -> Committed:
    backends = backends_of(write.connection, channel, {one.backend for one in new.values()})
    named = [
        (number, one.backend, one.payload, one.position)
        for number, one in new.items()
        if one.backend in backends
    ]
    return store_results(write, channel, RUN, named, backends, at=write.now)


def _known(connection: Connection, ids: list[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(ids):
        found.update(connection.scalars(select(_results.c.id).where(_results.c.id.in_(some))))
    return found


def _remember(connection: Connection, name: str, value: int) -> None:
    moved = update(_counters).where(_counters.c.name == name).values(value=value)
    if connection.execute(moved).rowcount == 0:
        connection.execute(insert(_counters), [{"name": name, "value": value}])
