"""What channels in real-time mode found: stored once each, whatever was repeated on the way.

A match is known by its channel, its record and its backend subscription, so one that comes again is
dropped. How far the matches were read is stored in the same transaction as what they became.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.numbers import listed
from tocsin.storage.store.runs import Backend, Committed, ResultColumns, store_results
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
        new: dict[str, list[tuple[str, Match]]] = {}
        for id_, match in named.items():
            backend = backends.get((match.channel, match.backend))
            if backend is not None and id_ not in known and match.position >= backend.since:
                new.setdefault(match.channel, []).append((id_, match))
        if source:
            write.count(source, up_to)
        return [
            store_results(write, channel, RUN, _columns(own), _of(channel, backends), at=write.now)
            for channel, own in new.items()
        ]


def _columns(matches: Sequence[tuple[str, Match]]) -> ResultColumns:
    return ResultColumns(
        [id_ for id_, _ in matches],
        [match.backend for _, match in matches],
        [match.payload for _, match in matches],
        [match.position for _, match in matches],
    )


def _of(channel: str, backends: dict[tuple[str, int], Backend]) -> dict[int, Backend]:
    return {number: backend for (of, number), backend in backends.items() if of == channel}


_BACKEND, _KNOWN = range(2)  # kinds of rows


def _question(ids: Iterable[str], backends: Iterable[int]) -> str:
    """Ids are digits, as backend subscriptions are: nothing is to be quoted."""
    quoted = ",".join(f"'{id_}'" for id_ in ids)
    return (
        f"SELECT {_BACKEND}, id, channel, epoch, head, since FROM {_backend.name}"  # noqa: S608
        f" WHERE id IN {listed(backends)} UNION ALL"
        f" SELECT {_KNOWN}, NULL, id, NULL, NULL, NULL FROM {_results.name} WHERE id IN ({quoted})"
    )


def _look_up(
    connection: Connection, named: dict[str, Match]
) -> tuple[set[str], dict[tuple[str, int], Backend]]:
    """Which of them are stored, and the backend subscriptions that are there."""
    known: set[str] = set()
    backends: dict[tuple[str, int], Backend] = {}
    for ids in chunks(list(named)):
        question = _question(ids, {named[id_].backend for id_ in ids})
        for kind, number, name, epoch, head, since in connection.exec_driver_sql(question).all():
            if kind == _KNOWN:
                known.add(name)
            else:
                backends[name, number] = Backend(epoch, head, since)
    return known, backends
