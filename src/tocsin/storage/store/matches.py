"""What channels in real-time mode found: stored once each, whatever was repeated on the way.

A match is known by its channel, its record and its backend subscription, so one that comes again is
dropped. How far matches were read is stored in the same transaction as what they became
(`match_progress`), so whoever reads a topic's matches may store them.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from tocsin.storage.store import match_progress, schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.match_progress import Moved, Place
from tocsin.storage.store.places import own_process
from tocsin.storage.store.runs import (
    Backend,
    Committed,
    NewResults,
    ResultColumns,
    backends_of,
    store_results,
)
from tocsin.storage.store.shared_writes import SharedWrites
from tocsin.storage.store.subscription_rows import chunks
from tocsin.storage.store.write import SharedWrite

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
    """How a topic's matches are taken needs no claim on the store: see `match_progress`."""

    def __init__(self, database: Database, shared: SharedWrites) -> None:
        self._database = database
        self._shared = shared
        self._token = secrets.token_hex(8)
        self._commits = itertools.count()

    @writes
    def begin(self, write: Write, topic: str, partitions: int = 1) -> dict[int, Place]:
        """Where a topic's matches go on, by partition, for who has the store."""
        match_progress.begin(write.connection, topic, range(partitions))
        return match_progress.places(write.connection, topic)

    @reads
    def places(self, connection: Connection, topic: str) -> dict[int, Place]:
        """Those that somebody has begun."""
        return match_progress.places(connection, topic)

    def read_up_to(self, topic: str, partition: int = 0) -> int:
        place = self.places(topic).get(partition)
        return 0 if place is None else place.up_to

    def commit(
        self, place: Place, matches: Sequence[Match], up_to: int
    ) -> tuple[list[Committed], Place]:
        """`store` matches that were read from a place on, and that they were read up to there.
        Raises Moved, and stores nothing, if another was faster."""
        goes_on = place._replace(up_to=up_to)
        holder = f"{next(self._commits)} {self._token} {own_process()}"
        stored: list[Committed] = []

        def work(write: SharedWrite) -> None:
            row = match_progress.lock(write, place.topic, place.partition)
            if row is not None and (row.place, row.holder) == (goes_on, holder):
                return  # it was committed, and the answer was lost
            if row is None or row.place != place:
                raise Moved(place if row is None else row.place, "" if row is None else row.holder)
            at = max(write.now, row.at)
            match_progress.move(write, goes_on, holder, at)
            stored[:] = _store(write, matches, at)

        self._shared.write(work)
        return stored, goes_on

    @writes
    def store(self, write: Write, matches: Sequence[Match]) -> list[Committed]:
        """Store what is new of them, in order.

        Results get the positions after the head of their backend subscription. Matches of backend
        subscriptions that are gone are dropped, and those of records that do not count for them.
        """
        return _store(write, matches, write.now)


def _store(write: SharedWrite, matches: Sequence[Match], at: float) -> list[Committed]:
    named = {match.id: match for match in matches}
    backends = backends_of(write, (match.backend for match in named.values()))
    known = _known(write.connection, list(named))
    new: dict[str, list[tuple[str, Match]]] = {}
    for id_, match in named.items():
        if id_ not in known and _counts(match, backends.get(match.backend)):
            new.setdefault(match.channel, []).append((id_, match))
    if not new:
        return []
    columns = [NewResults(channel, RUN, _columns(own)) for channel, own in new.items()]
    return store_results(write, columns, backends, at=at)


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
