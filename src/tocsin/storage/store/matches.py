"""What channels in real-time mode found: stored once each, whatever was repeated on the way.

A match is known by its channel, its record and its backend subscription, so one that comes again is
dropped. How far the matches were read is stored in the same transaction as what they became.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.runs import (
    Backend,
    Committed,
    NewResults,
    ResultColumns,
    backends_of,
    store_results,
)
from tocsin.storage.store.subscription_rows import chunks

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
        backends = backends_of(write, (match.backend for match in named.values()))
        known = _known(write.connection, list(named))
        new: dict[str, list[tuple[str, Match]]] = {}
        for id_, match in named.items():
            if id_ not in known and _counts(match, backends.get(match.backend)):
                new.setdefault(match.channel, []).append((id_, match))
        if source:
            write.count(source, up_to)
        if not new:
            return []
        columns = [NewResults(channel, RUN, _columns(own)) for channel, own in new.items()]
        return store_results(write, columns, backends, at=write.now)


def _counts(match: Match, backend: Backend | None) -> bool:
    if backend is None or backend.channel != match.channel:
        return False
    return match.position >= backend.since


def _columns(matches: Sequence[tuple[str, Match]]) -> ResultColumns:
    return ResultColumns(
        [id_ for id_, _ in matches],
        [match.backend for _, match in matches],
        [match.payload for _, match in matches],
        [match.position for _, match in matches],
    )


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Which are stored. Asked when their backend subscriptions are locked: nobody else stores them
    meanwhile. They are digits: nothing is to be quoted."""
    known: set[str] = set()
    for chunk in chunks(ids):
        quoted = ",".join(f"'{id_}'" for id_ in chunk)
        query = f"SELECT id FROM {_results.name} WHERE id IN ({quoted})"  # noqa: S608
        known.update(connection.exec_driver_sql(query).scalars())
    return known
