"""What channels in real-time mode found: stored once each, whatever was repeated on the way.

A match is known by its channel, its record and its backend subscription, so one that comes again is
dropped. How far the matches were read is stored in the same transaction as what they became.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, literal_column, null, select, union_all

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.runs import Backend, Committed, Named, store_results
from tocsin.storage.store.subscription_rows import chunks

_counters = schema.counters
_backend = schema.backend_subscriptions
_results = schema.results

RUN = "real-time"  # a channel in real-time mode has no runs of its own


class Match(NamedTuple):
    channel: str
    backend: int
    position: int  # of the record that matched, in its dataset's log
    payload: bytes

    @property
    def id(self) -> str:
        identity = msgspec.json.encode([self.channel, self.position, self.backend])
        return blake2b(identity, digest_size=16).hexdigest()


class Matches:
    def __init__(self, database: Database) -> None:
        self._database = database

    @reads
    def read_up_to(self, connection: Connection, source: str) -> int:
        """Up to where the matches of a source were taken."""
        query = select(_counters.c.value).where(_counters.c.name == source)
        return int(connection.execute(query).scalar() or 0)

    @writes
    def commit(
        self, write: Write, source: str, matches: Sequence[Match], up_to: int
    ) -> list[Committed]:
        """Store what is new of them, in order, and that the source, if any, was read up to there.

        Results get the positions after the head of their backend subscription. Matches of backend
        subscriptions that are gone are dropped, and those of records that do not count for them.
        """
        named = {match.id: match for match in matches}
        known, backends = _look_up(write.connection, named)
        new: dict[str, list[Named]] = {}
        for number, match in named.items():
            if number in known or (match.channel, match.backend) not in backends:
                continue
            if match.position >= backends[match.channel, match.backend].since:
                new.setdefault(match.channel, []).append(
                    (number, match.backend, match.payload, match.position)
                )
        if source:
            write.count(source, up_to)
        return [
            store_results(
                write,
                channel,
                RUN,
                results,
                {backend: backends[channel, backend] for _, backend, *_ in results},
                at=write.now,
            )
            for channel, results in new.items()
        ]


_BACKEND, _KNOWN = range(2)  # kinds of rows
_QUESTION = union_all(
    select(
        literal_column(str(_BACKEND)),
        _backend.c.id,
        _backend.c.channel,
        _backend.c.epoch,
        _backend.c.head,
        _backend.c.since,
    ).where(_backend.c.id.in_(bindparam("backends", expanding=True))),
    select(literal_column(str(_KNOWN)), null(), _results.c.id, null(), null(), null()).where(
        _results.c.id.in_(bindparam("ids", expanding=True))
    ),
)


def _look_up(
    connection: Connection, named: dict[str, Match]
) -> tuple[set[str], dict[tuple[str, int], Backend]]:
    """Which of them are stored, and the backend subscriptions that are there."""
    known: set[str] = set()
    backends: dict[tuple[str, int], Backend] = {}
    for ids in chunks(list(named)):
        question = {"ids": ids, "backends": list({named[number].backend for number in ids})}
        for kind, number, name, epoch, head, since in connection.execute(_QUESTION, question):
            if kind == _KNOWN:
                known.add(name)
            else:
                backends[name, number] = Backend(epoch, head, since=since)
    return known, backends
