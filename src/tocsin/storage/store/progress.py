"""How far each channel has run, by positions of the publication log, and what it went past.

A channel's progress moves in the transaction that stores what its run found, and only from where
that run began: a run that was repeated, or was overtaken, changes nothing. Spark's checkpoints
and batch numbers decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, func, insert, select, update

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes

_progress = schema.progress
_losses = schema.losses


class Progress(Struct, frozen=True):
    """Records below `ends` have been looked at; the last window ended at `at_us`. `settled`: in
    real-time mode, the newest backend subscription that Spark's own query covers."""

    ends: dict[str, int]
    at_us: int
    settled: int = 0


class Loss(Struct, frozen=True):
    """Records in [first, end) of a dataset that a channel went past without an answer."""

    dataset: str
    first: int
    end: int
    records: int
    cause: str
    at: float = 0.0


class ChannelProgress:
    def __init__(self, database: Database) -> None:
        self._database = database

    @reads
    def of(self, connection: Connection, channel: str) -> Progress | None:
        """None: it has not run yet, and begins where it was created."""
        return read(connection, channel)

    @reads
    def latest_us(self, connection: Connection) -> int:
        """No record may be stamped at or before this any more: a window has ended there."""
        return int(connection.execute(select(func.max(_progress.c.at_us))).scalar() or 0)

    @reads
    def highest(self, connection: Connection, dataset: str) -> int:
        """How far any channel has looked at the dataset's new records."""
        texts = connection.execute(select(_progress.c.ends)).scalars()
        every = (msgspec.json.decode(text, type=dict[str, int]) for text in texts)
        return max((ends.get(dataset, 0) for ends in every), default=0)

    @writes
    def put(self, write: Write, channel: str, progress: Progress) -> None:
        """For a channel whose results are stored by others: in real-time mode."""
        move(write.connection, channel, progress)

    @reads
    def losses(self, connection: Connection, channel: str, count: int) -> list[Loss]:
        """The newest ones, newest first."""
        rows = connection.execute(
            select(*(_losses.c[name] for name in Loss.__struct_fields__))
            .where(_losses.c.channel == channel)
            .order_by(_losses.c.number.desc())
            .limit(count)
        )
        return [Loss(*row) for row in rows]


def read(connection: Connection, channel: str) -> Progress | None:
    row = connection.execute(
        select(_progress.c.ends, _progress.c.at_us, _progress.c.settled).where(
            _progress.c.channel == channel
        )
    ).first()
    if row is None:
        return None
    ends, at_us, settled = row
    return Progress(msgspec.json.decode(ends, type=dict[str, int]), at_us, settled)


def move(connection: Connection, channel: str, to: Progress) -> None:
    values: dict[str, Any] = {"ends": _text(to.ends), "at_us": to.at_us, "settled": to.settled}
    moved = update(_progress).where(_progress.c.channel == channel).values(**values)
    if connection.execute(moved).rowcount == 0 and read(connection, channel) is None:
        connection.execute(insert(_progress), {"channel": channel, **values})


def record_losses(
    connection: Connection, channel: str, losses: Sequence[Loss], *, at: float
) -> None:
    if losses:
        rows = [{**msgspec.structs.asdict(loss), "channel": channel, "at": at} for loss in losses]
        connection.execute(insert(_losses), rows)


def _text(ends: Mapping[str, int]) -> str:
    return msgspec.json.encode(ends, order="deterministic").decode()
