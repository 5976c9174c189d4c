"""Runs of channels: a run and all its results are committed in one transaction, exactly once.

Knows nothing of Spark: a run is a name and rows of (backend subscription, payload).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice, repeat
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, insert, select

from tocsin.model import Arguments, Head, Result
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.names import require
from tocsin.storage.store.numbers import listed
from tocsin.storage.store.progress import Loss, Progress, move, read, record_losses
from tocsin.storage.store.rows import Rows
from tocsin.storage.store.subscription_rows import chunks
from tocsin.storage.store.write import SharedWrite

_backend = schema.backend_subscriptions
_runs = schema.runs
_BACKENDS = f"SELECT id, channel, epoch, head, since FROM {_backend.name}"  # noqa: S608
_RESULT_COLUMNS = ("number", "id", "backend", "position", "record", "created_at", "payload")


class Run(Struct, frozen=True):
    """One run of a channel, over the records of its NEW datasets between two cuts of the log."""

    channel: str
    run: str
    started_at: float
    ended_at: float
    window_start_us: int = 0
    window_end_us: int = 0
    ends: dict[str, int] = {}  # of each dataset's log, exclusive
    rows: int = 0
    error: str | None = None


class Committed(Struct, frozen=True):
    """What a commit stored, column by column, in the order in which it was stored: the same place
    of each list is one result. Heads are those of the backend subscriptions that got results."""

    channel: str
    run: str
    sequence: int
    heads: list[Head]
    backends: list[int]
    positions: list[int]
    payloads: list[bytes]
    at: float

    @property
    def count(self) -> int:
        return len(self.backends)

    @property
    def bytes(self) -> int:
        return sum(map(len, self.payloads))

    @property
    def results(self) -> Iterator[Result]:
        return map(Result, self.backends, self.positions, repeat(self.at), self.payloads)


class Late(Exception):
    """Subscriptions were made whose records lie in a run's window, and the run did not ask for
    them: nothing was stored."""

    def __init__(self, sets: dict[int, Arguments]) -> None:
        super().__init__(f"{len(sets)} subscriptions were made meanwhile")
        self.sets = sets


class Backend(NamedTuple):
    channel: str
    epoch: str
    head: int
    since: int = 0  # from which position of its channel's NEW dataset records count


class RunStart(NamedTuple):
    """Where a run began. `covers` says whether the run asked for a backend subscription; Late if
    there is one that counts records of the run's window and was not asked for."""

    progress: Progress
    covers: Callable[[int], bool] | None = None


class ResultColumns(Struct, frozen=True):
    """Results to be stored, column by column: their ids, whose they are, what they say, and the
    record that each stems from, if it is just one."""

    ids: list[str]
    backends: list[int]
    payloads: list[bytes]
    records: list[int | None]

    def of(self, known: Mapping[int, Backend]) -> ResultColumns:
        """Those of backend subscriptions that are still there."""
        if known.keys() >= set(self.backends):
            return self
        columns = zip(self.ids, self.backends, self.payloads, self.records, strict=True)
        left = [row for row in columns if row[1] in known]
        return (
            ResultColumns(*(list(column) for column in zip(*left, strict=True)))
            if left
            else NOTHING
        )


NOTHING = ResultColumns([], [], [], [])


class NewResults(NamedTuple):
    """What a run of a channel found."""

    channel: str
    run: str
    results: ResultColumns


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    @writes
    def commit_run(
        self,
        write: Write,
        run: Run,
        rows: Rows | Sequence[tuple[int, bytes]],
        records: Sequence[int | None] | None = None,
        *,
        start: RunStart | None = None,
        quiet: bool = False,
        losses: Sequence[Loss] = (),
    ) -> Committed | None:
        """Store the run and its results, all or nothing; None if that run is there already.

        Results get the positions after the head of their backend subscription, in the order
        given, and are dated by the end of the run. Rows of backend subscriptions that are gone
        are dropped. `records` says for each row which record it stems from, if it is just one.

        With `start`, the channel's progress moves from there to the run's ends, or another run was
        there before and nothing is stored. `quiet`: the run itself is not worth remembering.
        `losses`: records that it went past.
        """
        connection = write.connection
        if _is_there(connection, run):
            return None
        if start is not None and not _advance(connection, run, start):
            return None
        record_losses(connection, run.channel, losses, at=write.now)
        if not quiet:
            connection.execute(insert(_runs), _as_row(run))
        results = _named(run, rows, records)
        backends = backends_of(write, results.backends)
        new = NewResults(run.channel, run.run, results)
        return store_results(write, [new], backends, at=run.ended_at)[0]

    def last_run(self, channel: str) -> Run | None:
        """The newest run committed."""
        return next(iter(self.recent_runs(channel, 1)), None)

    @reads
    def recent_runs(self, connection: Connection, channel: str, count: int) -> list[Run]:
        """The newest runs, newest first."""
        rows = connection.execute(
            select(_runs)
            .where(_runs.c.channel == channel)
            .order_by(_runs.c.number.desc())
            .limit(count)
        )
        return [_as_run(row._mapping) for row in rows]


def result_ids(channel: str, run: str, count: int) -> list[str]:
    """Ids of the results of a run, row by row: the same at every replay, and no other run's. They
    grow within a run, so that an index of them grows at its end."""
    of_run = blake2b(msgspec.json.encode([channel, run]), digest_size=12).hexdigest()
    return [f"{of_run}{row:08x}" for row in range(count)]


def _is_there(connection: Connection, run: Run) -> bool:
    require(connection, "channel", run.channel)
    same = (_runs.c.channel == run.channel) & (_runs.c.run == run.run)
    return connection.execute(select(_runs.c.number).where(same)).first() is not None


def _advance(connection: Connection, run: Run, start: RunStart) -> bool:
    """Move the channel's progress to the run's ends; False if it stands elsewhere by now."""
    since = start.progress
    now = read(connection, run.channel)
    if now is not None and (now.ends, now.at_us) != (since.ends, since.at_us):
        return False
    if start.covers is not None:
        _refuse_late(connection, run, since, start.covers)
    settled = 0 if now is None else now.settled
    move(connection, run.channel, Progress(run.ends, run.window_end_us, settled))
    return True


def _named(
    run: Run, rows: Rows | Sequence[tuple[int, bytes]], records: Sequence[int | None] | None
) -> ResultColumns:
    if isinstance(rows, Rows):
        backends, payloads = rows.backends, rows.payloads
    else:
        backends, payloads = [backend for backend, _ in rows], [payload for _, payload in rows]
    stems: list[int | None] = list(repeat(None, len(backends)) if records is None else records)
    return ResultColumns(result_ids(run.channel, run.run, len(backends)), backends, payloads, stems)


def _refuse_late(
    connection: Connection, run: Run, since: Progress, covers: Callable[[int], bool]
) -> None:
    ((dataset, end),) = run.ends.items()
    within = select(_backend.c.id, _backend.c.arguments).where(
        _backend.c.channel == run.channel,
        _backend.c.since >= since.ends.get(dataset, 0),
        _backend.c.since < end,
        _backend.c.failure.is_(None),
    )
    late = {
        number: msgspec.json.decode(text)
        for number, text in connection.execute(within)
        if not covers(number)
    }
    if late:
        raise Late(late)


def backends_of(write: SharedWrite, wanted: Iterable[int]) -> dict[int, Backend]:
    """Those that are there. Their heads stay as they are until the commit."""
    backends: dict[int, Backend] = {}
    for chunk in chunks(sorted(set(wanted))):
        query = f"{_BACKENDS} WHERE id IN {listed(chunk)}{write.locking}"
        for number, *values in write.connection.exec_driver_sql(query).all():
            backends[number] = Backend(*values)
    return backends


def store_results(
    write: SharedWrite,
    new: Sequence[NewResults],
    backends: Mapping[int, Backend],
    *,
    at: float,
) -> list[Committed]:
    """Store results behind the heads of their backend subscriptions, in the order given: the last
    that a transaction does. Those of others than `backends`, or of other channels, are dropped."""
    kept = [batch.results.of(_of_channel(batch.channel, backends)) for batch in new]
    placed = [_positions(results.backends, backends) for results in kept]
    rows = _rows(write, kept, [positions for positions, _ in placed], at)
    heads = {backend: head for _, raised in placed for backend, head in raised.items()}
    if rows:
        with write.together(len(rows)):
            write.insert_many(schema.results, _RESULT_COLUMNS, rows)
            sequence = write.raise_heads(heads)
    else:
        sequence = write.last_sequence()
    return [
        Committed(
            channel=of.channel,
            run=of.run,
            sequence=sequence,
            heads=[Head(number, backends[number].epoch, head) for number, head in raised.items()],
            backends=results.backends,
            positions=positions,
            payloads=results.payloads,
            at=at,
        )
        for of, results, (positions, raised) in zip(new, kept, placed, strict=True)
    ]


def _of_channel(channel: str, backends: Mapping[int, Backend]) -> Mapping[int, Backend]:
    if all(backend.channel == channel for backend in backends.values()):
        return backends
    return {number: backend for number, backend in backends.items() if backend.channel == channel}


def _rows(
    write: SharedWrite,
    kept: Sequence[ResultColumns],
    positions: Sequence[list[int]],
    at: float,
) -> list[tuple[Any, ...]]:
    count = sum(map(len, positions))
    if not count:
        return []
    numbers = iter(write.take_numbers(count))
    rows: list[tuple[Any, ...]] = []
    for results, places in zip(kept, positions, strict=True):
        columns = (results.ids, results.backends, places, results.records)
        rows += zip(islice(numbers, len(places)), *columns, repeat(at), results.payloads)
    return rows


def _positions(
    of: Sequence[int], backends: Mapping[int, Backend]
) -> tuple[list[int], dict[int, int]]:
    """The position of each result, and the heads when all are there."""
    heads: dict[int, int] = {}
    positions = []
    for backend in of:
        head = heads.get(backend)
        head = heads[backend] = (backends[backend].head if head is None else head) + 1
        positions.append(head)
    return positions, heads


def _as_row(run: Run) -> dict[str, Any]:
    error = run.error
    if error is not None and not schema.storable(error):  # any program's words, at times bytes
        error = error.encode(errors="replace").decode().replace("\0", "�")
    ends = msgspec.json.encode(run.ends).decode()
    return {**msgspec.structs.asdict(run), "ends": ends, "error": error}


def _as_run(row: Any) -> Run:
    ends = msgspec.json.decode(row["ends"], type=dict[str, int])
    return Run(**{name: row[name] for name in Run.__struct_fields__ if name != "ends"}, ends=ends)
