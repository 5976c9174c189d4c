"""Runs of channels: a run and all its results are committed in one transaction, exactly once.

Knows nothing of Spark: a run is a name and rows of (backend subscription, payload).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, insert, select, update

from tocsin.model import Arguments, Head, Result
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.names import require
from tocsin.storage.store.progress import Loss, Progress, move, read, record_losses
from tocsin.storage.store.subscription_rows import chunks

_backend = schema.backend_subscriptions
_runs = schema.runs
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
    """What a commit stored. Heads are those of the backend subscriptions that got results."""

    channel: str
    run: str
    sequence: int
    heads: list[Head]
    rows: list[tuple[Any, ...]]
    bytes: int

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def results(self) -> Iterator[Result]:
        """In the order in which they were stored."""
        for _, _, backend, position, _, at, payload in self.rows:
            yield Result(backend, position, at, payload)


class Late(Exception):
    """Subscriptions were made whose records lie in a run's window, and the run did not ask for
    them: nothing was stored."""

    def __init__(self, sets: dict[int, Arguments]) -> None:
        super().__init__(f"{len(sets)} subscriptions were made meanwhile")
        self.sets = sets


class Backend(NamedTuple):
    epoch: str
    head: int
    arguments: str = ""
    since: int = 0  # from which position of its channel's NEW dataset records count


class RunStart(NamedTuple):
    """Where a run began. `covers` says whether the run asked for a backend subscription; Late if
    there is one that counts records of the run's window and was not asked for."""

    progress: Progress
    covers: Callable[[int], bool] | None = None


Named = tuple[str, int, bytes, int | None]
"""A result to be stored: its id, backend subscription, payload, and the record it stems from."""


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    @writes
    def commit_run(
        self,
        write: Write,
        run: Run,
        rows: Sequence[tuple[int, bytes]],
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
        backends = backends_of(connection, run.channel, {backend for backend, _ in rows})
        named = _name_results(run, rows, records, backends)
        return store_results(write, run.channel, run.run, named, backends, at=run.ended_at)

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


def result_ids(channel: str, run: str, arguments: str) -> Iterator[str]:
    """Ids of the results of a run for one parameter set, row by row: the same at every replay."""
    prefix = blake2b(msgspec.json.encode([channel, run, arguments]), digest_size=16)
    ordinal = 0
    while True:
        digest = prefix.copy()
        digest.update(b"%d" % ordinal)
        yield digest.hexdigest()
        ordinal += 1


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


def _name_results(
    run: Run,
    rows: Sequence[tuple[int, bytes]],
    records: Sequence[int | None] | None,
    backends: Mapping[int, Backend],
) -> list[Named]:
    """The rows of backend subscriptions that are still there, with ids."""
    ids = {
        number: result_ids(run.channel, run.run, backend.arguments)
        for number, backend in backends.items()
    }
    stems = records or itertools.repeat(None, len(rows))
    return [
        (next(ids[backend]), backend, payload, record)
        for (backend, payload), record in zip(rows, stems, strict=True)
        if backend in backends
    ]


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


def backends_of(connection: Connection, channel: str, wanted: set[int]) -> dict[int, Backend]:
    backends: dict[int, Backend] = {}
    for chunk in chunks(sorted(wanted)):
        query = select(
            _backend.c.id, _backend.c.epoch, _backend.c.head, _backend.c.arguments
        ).where(_backend.c.id.in_(chunk), _backend.c.channel == channel)
        for number, *rest in connection.execute(query):
            backends[number] = Backend(*rest)
    return backends


def store_results(
    write: Write,
    channel: str,
    run: str,
    named: Sequence[Named],
    backends: dict[int, Backend],
    *,
    at: float,
) -> Committed:
    """Store results behind the heads of their backend subscriptions, in the order given."""
    heads = {number: backend.head for number, backend in backends.items()}
    rows: list[tuple[Any, ...]] = []
    numbers = write.take_ids(schema.RESULT_COUNTER, len(named)) if named else range(0)
    for number, (id_, backend, payload, record) in zip(numbers, named, strict=True):
        heads[backend] += 1
        rows.append((number, id_, backend, heads[backend], record, at, payload))
    counts = {number: head - backends[number].head for number, head in heads.items()}
    if rows:
        with write.together(len(rows)):
            write.insert_many(schema.results, _RESULT_COLUMNS, rows)
            _raise_heads(write, counts)
    return Committed(
        channel=channel,
        run=run,
        sequence=write.last_sequence,
        heads=[Head(number, backends[number].epoch, head) for number, head in heads.items()],
        rows=rows,
        bytes=sum(len(payload) for *_, payload in rows),
    )


_RAISED = (
    update(_backend)
    .where(_backend.c.id.in_(bindparam("backends", expanding=True)))
    .values(head=_backend.c.head + bindparam("by"), sequence=bindparam("at"))
)


def _raise_heads(write: Write, counts: dict[int, int]) -> None:
    """Most backend subscriptions get one result, or as few as others: those go together."""
    sequence = write.sequence()
    alike: dict[int, list[int]] = {}
    for backend, count in counts.items():
        alike.setdefault(count, []).append(backend)
    for count, backends in alike.items():
        for chunk in chunks(backends):
            values = {"backends": chunk, "by": count, "at": sequence}
            write.connection.execute(_RAISED, values)


def _as_row(run: Run) -> dict[str, Any]:
    error = run.error
    if error is not None and not schema.storable(error):  # any program's words, at times bytes
        error = error.encode(errors="replace").decode().replace("\0", "�")
    ends = msgspec.json.encode(run.ends).decode()
    return {**msgspec.structs.asdict(run), "ends": ends, "error": error}


def _as_run(row: Any) -> Run:
    ends = msgspec.json.decode(row["ends"], type=dict[str, int])
    return Run(**{name: row[name] for name in Run.__struct_fields__ if name != "ends"}, ends=ends)
