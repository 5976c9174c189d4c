"""Gaps: what subscribers get in place of results that could not be made.

A gap is a result that says so: it has a position, is stored, fetched, cached and acknowledged as
any other, and so comes in order and exactly once. Its payload is a `protocol.gap.GapPayload`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import Connection, select

from tocsin.model import Channel
from tocsin.protocol.gap import GapPayload, LostRecords
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, writes
from tocsin.storage.store.progress import Loss, read, record_losses
from tocsin.storage.store.runs import (
    Committed,
    NewResults,
    ResultColumns,
    backends_of,
    result_ids,
    store_results,
)

_backend = schema.backend_subscriptions


def gap_payload(loss: Loss) -> bytes:
    lost = LostRecords(loss.cause, loss.dataset, loss.first, loss.end, loss.records)
    return msgspec.json.encode(GapPayload(lost))


def too_large(size_bytes: int, limit_bytes: int) -> str:
    """Why a result is not stored."""
    return f"a result of {size_bytes} bytes is larger than result_limit_bytes = {limit_bytes}"


def gap_rows(backends: Iterable[int], losses: Sequence[Loss]) -> list[tuple[int, bytes]]:
    """As a run's rows: every backend subscription gets every loss."""
    payloads = [gap_payload(loss) for loss in losses]
    return [(backend, payload) for backend in backends for payload in payloads]


class Gaps:
    def __init__(self, database: Database) -> None:
        self._database = database

    @writes
    def records_lost(
        self, write: Write, dataset: str, first: int, end: int, cause: str
    ) -> list[Committed]:
        """Records in [first, end) are gone for good: all who subscribe to a channel over the
        dataset's new records get a gap, unless the channel has answered for them already. May be
        called again: each range is reported once."""
        loss = Loss(dataset, first, end, 0, cause)
        connection, run = write.connection, f"lost-{dataset[:100]}-{first}-{end}"
        channels = [
            channel
            for channel in _channels_over(connection, loss)
            if not _is_past(connection, channel, loss)
        ]
        wanted = {channel: sorted(all_backends(connection, channel)) for channel in channels}
        backends = backends_of(write, (number for of in wanted.values() for number in of))
        gaps = []
        for channel, of in wanted.items():
            record_losses(connection, channel, [loss], at=write.now)
            ids = result_ids(channel, run, len(of))
            columns = ResultColumns(ids, of, [gap_payload(loss)] * len(of), [None] * len(of))
            gaps.append(NewResults(channel, run, columns))
        return store_results(write, gaps, backends, at=write.now)


def all_backends(connection: Connection, channel: str) -> set[int]:
    of_channel = select(_backend.c.id).where(_backend.c.channel == channel)
    return set(connection.execute(of_channel).scalars())


def _channels_over(connection: Connection, loss: Loss) -> list[str]:
    """Those that look at new records of the dataset, and were there before the lost ones came."""
    bodies = connection.execute(select(schema.channels.c.body)).scalars()
    channels = [msgspec.json.decode(body, type=Channel) for body in bodies]
    return [
        channel.name
        for channel in channels
        if loss.dataset in channel.new and channel.starts.get(loss.dataset, 0) < loss.end
    ]


def _is_past(connection: Connection, channel: str, loss: Loss) -> bool:
    """It was reported before, or the channel had looked at the records while they were there."""
    progress = read(connection, channel)
    if progress is not None and progress.ends.get(loss.dataset, 0) >= loss.end:
        return True
    losses = schema.losses
    same = select(losses.c.number).where(
        losses.c.channel == channel,
        losses.c.dataset == loss.dataset,
        losses.c.first == loss.first,
        losses.c.end == loss.end,
    )
    return connection.execute(same.limit(1)).first() is not None
