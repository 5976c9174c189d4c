"""Results as they are read and expire. How they are written is the business of `runs`.

A backend subscription keeps the results in (floor, head], without holes: retention takes a prefix
and raises the floor in the same transaction, so that a reader always knows what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Select, delete, func, select, update

from tocsin.errors import NotFound
from tocsin.model import Arguments, Result, filtered_dataset
from tocsin.storage.store import news, schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.subscription_rows import chunks

_FIRST_ROWS = 16  # read before their size is known
_EXPIRED_AT_ONCE = 20_000  # results per transaction: others may write in between

_backend = schema.backend_subscriptions
_results = schema.results
_runs = schema.runs


class Range(Struct, frozen=True):
    """Asks for the results of a backend subscription with after < position <= upto."""

    backend: int
    after: int
    upto: int
    limit: int


class ResultRange(Struct, frozen=True):
    """Results in order; what lies at or below `floor` is no longer kept."""

    backend: int
    epoch: str
    floor: int
    head: int
    results: list[Result]
    dataset: str | None = None  # of a filter: its results are records, which the log has
    arguments: Arguments = {}  # of a filter


class Results:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, backend: int, after: int, upto: int, limit: int) -> ResultRange:
        results = self.read_many([Range(backend, after, upto, limit)])[0]
        if results is None:
            raise NotFound(f"there is no backend subscription {backend}", field="backend")
        return results

    @reads
    def read_many(
        self, connection: Connection, ranges: Sequence[Range], most_bytes: float = math.inf
    ) -> list[ResultRange | None]:
        """An answer per range, all of one moment; None where the backend subscription is gone. When
        there are so many bytes, further ranges have one result each: whoever asks for the rest goes
        on from there."""
        room = _Room(most_bytes)
        return [_read(connection, wanted, room) for wanted in ranges]

    @reads
    def payloads(
        self, connection: Connection, channels: Sequence[str], after: int, limit: int
    ) -> list[tuple[int, bytes]]:
        """Numbers and payloads of results of these channels, by number: later ones are higher."""
        of = select(_backend.c.id).where(_backend.c.channel.in_(channels))
        rows = connection.execute(
            select(_results.c.number, _results.c.payload)
            .where(_results.c.number > after, _results.c.backend.in_(of))
            .order_by(_results.c.number)
            .limit(limit)
        )
        return [(number, bytes(payload)) for number, payload in rows]

    def expire(self, before: float, now: float | None = None) -> int:
        """Drop the results and runs of before that time; returns how many results went.

        A result stays while an older position of its backend subscription stays. The newest run
        of each channel stays, because the next one continues from it. `now`: by which brokers have
        had time to hear of departures; else the time of this commit.
        """
        count = 0
        for backends in _groups(self._aged(before)):
            count += self._expire(backends, before)
        self._prune(before, now)
        return count

    @writes
    def _expire(self, write: Write, backends: list[int], before: float) -> int:
        return _expire(write.connection, backends, before)

    @writes
    def _prune(self, write: Write, before: float, now: float | None) -> None:
        _prune_runs(write.connection, before)
        news.prune(write.connection, write.now if now is None else now)

    @reads
    def _aged(self, connection: Connection, before: float) -> list[tuple[int, int]]:
        """Backend subscriptions with results to drop, and how many."""
        rows = connection.execute(
            select(_results.c.backend, func.count())
            .where(_results.c.created_at < before)
            .group_by(_results.c.backend)
        )
        return [(backend, aged) for backend, aged in rows]


def _groups(counted: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Backend subscriptions in groups of bounded work."""
    group: list[int] = []
    size = 0
    for backend, aged in counted:
        group.append(backend)
        size += aged
        if size >= _EXPIRED_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


class _Room:
    """What may yet be read for one answer."""

    def __init__(self, left_bytes: float) -> None:
        self.left_bytes = left_bytes


def _read(connection: Connection, wanted: Range, room: _Room) -> ResultRange | None:
    state = connection.execute(
        select(
            _backend.c.epoch,
            _backend.c.floor,
            _backend.c.head,
            _backend.c.channel,
            _backend.c.arguments,
        ).where(_backend.c.id == wanted.backend)
    ).first()
    if state is None:
        return None
    dataset = filtered_dataset(state.channel)
    if dataset is not None:
        arguments = msgspec.json.decode(state.arguments)
        return ResultRange(wanted.backend, state.epoch, 0, 0, [], dataset, arguments)
    results = _results_of(connection, wanted, room)
    return ResultRange(wanted.backend, state.epoch, state.floor, state.head, results)


def _results_of(connection: Connection, wanted: Range, room: _Room) -> list[Result]:
    """Some rows at first; how many next, their size tells."""
    results: list[Result] = []
    after, left, total_bytes = wanted.after, max(wanted.limit, 0), 0
    count = left if room.left_bytes == math.inf else _FIRST_ROWS
    while left > 0:
        count = min(count, left)
        rows = connection.execute(_rows(wanted.backend, after, wanted.upto, count)).all()
        for row in rows:
            result = Result(wanted.backend, *row)
            results.append(result)
            total_bytes += len(result.payload)
            room.left_bytes -= len(result.payload)
            if room.left_bytes <= 0:
                return results
        left -= count
        if len(rows) < count or not left:
            break
        after = results[-1].position
        count = max(1, int(room.left_bytes // max(1, total_bytes // len(results))))
    return results


def _rows(backend: int, after: int, upto: int, limit: int) -> Select[Any]:
    return (
        select(_results.c.position, _results.c.created_at, _results.c.payload)
        .where(
            _results.c.backend == backend,
            _results.c.position > after,
            _results.c.position <= upto,
        )
        .order_by(_results.c.position)
        .limit(limit)
    )


def _expire(connection: Connection, backends: list[int], before: float) -> int:
    oldest_kept = (
        select(_results.c.position - 1)
        .where(_results.c.backend == _backend.c.id, _results.c.created_at >= before)
        .order_by(_results.c.position)
        .limit(1)
        .scalar_subquery()
    )
    floor = select(_backend.c.floor).where(_backend.c.id == _results.c.backend).scalar_subquery()
    count = 0
    for chunk in chunks(backends):
        connection.execute(
            update(_backend)
            .where(_backend.c.id.in_(chunk))
            .values(floor=func.coalesce(oldest_kept, _backend.c.head))
        )
        gone = delete(_results).where(_results.c.backend.in_(chunk), _results.c.position <= floor)
        count += connection.execute(gone).rowcount
    return count


def _prune_runs(connection: Connection, before: float) -> None:
    newest = select(func.max(_runs.c.number)).group_by(_runs.c.channel)
    kept = list(connection.execute(newest).scalars())
    connection.execute(delete(_runs).where(_runs.c.ended_at < before, _runs.c.number.not_in(kept)))
    connection.execute(delete(schema.losses).where(schema.losses.c.at < before))
