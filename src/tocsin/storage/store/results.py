"""Results as they are read and expire. How they are written is the business of `runs`.

A backend subscription keeps the results in (floor, head], without holes: retention takes a prefix
and raises the floor in the same transaction, so that a reader always knows what is missing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, delete, func, select, update

from tocsin.errors import NotFound
from tocsin.model import Arguments, Result, filtered_dataset
from tocsin.storage.store import news, schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.numbers import given, listed
from tocsin.storage.store.subscription_rows import chunks

_ROWS_AT_ONCE = 2000  # of one statement
_EXPIRED_AT_ONCE = 20_000  # results per transaction: others may write in between

_backend = schema.backend_subscriptions
_results = schema.results
_runs = schema.runs
_STATES = f"SELECT id, channel, epoch, floor, head FROM {_backend.name}"  # noqa: S608
_RESULT = "results.position, created_at, payload"
_SAME = "results.backend = given.backend AND results.position = given.position"


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
        for wanted in ranges:
            for number in (wanted.backend, wanted.after, wanted.upto):
                schema.checked_number(number)
        answers = _answers(connection, ranges)
        places = [
            _Place(answer, max(wanted.after, answer.floor), wanted)
            for wanted, answer in zip(ranges, answers, strict=True)
            if answer is not None and answer.dataset is None
        ]
        _fill(connection, places, most_bytes)
        return answers

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
        return _expire(write, backends, before)

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


class _Place(NamedTuple):
    """Where the results of a range go, and behind which position the first of them is."""

    answer: ResultRange
    after: int
    wanted: Range

    @property
    def positions(self) -> range:
        """There is a result at each of them."""
        limit = max(self.wanted.limit, 0)
        return range(
            self.after + 1, min(self.wanted.upto, self.answer.head, self.after + limit) + 1
        )


def _answers(connection: Connection, ranges: Sequence[Range]) -> list[ResultRange | None]:
    """Of the present state, without results."""
    states: dict[int, tuple[str, str, int, int]] = {}
    for chunk in chunks(sorted({wanted.backend for wanted in ranges})):
        query = f"{_STATES} WHERE id IN {listed(chunk)}"
        states |= {row[0]: tuple(row[1:]) for row in connection.exec_driver_sql(query).all()}
    filters = [number for number, (channel, *_) in states.items() if filtered_dataset(channel)]
    arguments = _arguments(connection, filters)
    answers: list[ResultRange | None] = []
    for number in (wanted.backend for wanted in ranges):
        if number not in states:
            answers.append(None)
            continue
        channel, epoch, floor, head = states[number]
        dataset = filtered_dataset(channel)
        if dataset is None:
            answers.append(ResultRange(number, epoch, floor, head, []))
        else:
            answers.append(ResultRange(number, epoch, 0, 0, [], dataset, arguments[number]))
    return answers


def _arguments(connection: Connection, backends: Sequence[int]) -> dict[int, Arguments]:
    arguments: dict[int, Arguments] = {}
    for chunk in chunks(backends):
        query = select(_backend.c.id, _backend.c.arguments).where(_backend.c.id.in_(chunk))
        for number, text in connection.execute(query):
            arguments[number] = msgspec.json.decode(text)
    return arguments


def _fill(connection: Connection, places: Sequence[_Place], left_bytes: float) -> None:
    """One statement for many ranges, and for no more bytes than there is room for."""
    lines = _lines(places, lambda: left_bytes > 0)
    while batch := list(itertools.islice(lines, _ROWS_AT_ONCE)):
        for table in given(("place", "backend", "position", "leads"), batch):
            for place, position, at, payload in _rows(connection, table, left_bytes):
                places[place].answer.results.append(
                    Result(places[place].wanted.backend, position, at, payload)
                )
                left_bytes -= len(payload)


def _lines(
    places: Sequence[_Place], has_room: Callable[[], bool]
) -> Iterator[tuple[int, int, int, int]]:
    """What is to be read: place, backend subscription, position, and whether it is read in any
    case, as the first of its place is."""
    for number, place in enumerate(places):
        for position in place.positions:
            leads = position == place.after + 1
            if not leads and not has_room():
                break
            yield number, place.wanted.backend, position, int(leads)


def _rows(connection: Connection, given: str, room_bytes: float) -> Sequence[Any]:
    """In the order given, until there are so many bytes."""
    joined = f"FROM {given} JOIN results ON {_SAME}"
    if room_bytes == math.inf:
        query = f"SELECT place, {_RESULT} {joined} ORDER BY place, results.position"
    else:
        before = "SUM(LENGTH(payload)) OVER (ORDER BY place, results.position) - LENGTH(payload)"
        sized = f"SELECT place, leads, number, {before} AS earlier {joined}"
        query = (
            f"SELECT place, {_RESULT} FROM ({sized}) AS sized"  # noqa: S608
            " JOIN results ON results.number = sized.number"
            f" WHERE earlier < {int(room_bytes)} OR leads = 1 ORDER BY place, results.position"
        )
    return connection.exec_driver_sql(query).all()


def _expire(write: Write, backends: list[int], before: float) -> int:
    """Rows are locked first: a head that another is just raising would become the floor, above the
    results that are not to be seen yet."""
    connection = write.connection
    oldest_kept = (
        select(_results.c.position - 1)
        .where(_results.c.backend == _backend.c.id, _results.c.created_at >= before)
        .order_by(_results.c.position)
        .limit(1)
        .scalar_subquery()
    )
    floor = select(_backend.c.floor).where(_backend.c.id == _results.c.backend).scalar_subquery()
    count = 0
    for chunk in chunks(sorted(backends)):
        write.lock_backends(chunk)
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
