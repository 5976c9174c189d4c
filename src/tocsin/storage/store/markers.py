"""How far each frontend subscription was acknowledged. A marker never goes backwards, never
passes the head, and belongs to one epoch.

The head of a filter is the end of its dataset's log, which the store does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select, true, update

from tocsin.model import filtered_dataset
from tocsin.storage.store import schema
from tocsin.storage.store.subscription_rows import chunks

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


def put(
    connection: Connection,
    wanted: Sequence[tuple[int, str, int]],
    ends: Mapping[str, int],
    broker: str | None = None,
) -> list[int]:
    """Move markers (subscription, epoch, position) forward. Returns the ids of subscriptions that
    are not there or are of another epoch, each once, in the order given. `ends`: of the logs, by
    dataset. `broker`: only subscriptions that it serves are there."""
    known: dict[int, tuple[str, int, int]] = {}
    anywhere = true() if broker is None else _frontend.c.broker == broker
    for chunk in chunks(sorted({number for number, _, _ in wanted})):
        rows = connection.execute(
            select(
                _frontend.c.id,
                _backend.c.epoch,
                _backend.c.head,
                _frontend.c.marker,
                _backend.c.channel,
            )
            .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
            .where(_frontend.c.id.in_(chunk), anywhere)
        )
        for number, epoch, head, marker, channel in rows:
            dataset = filtered_dataset(channel)
            known[number] = (epoch, head if dataset is None else ends.get(dataset, 0), marker)
    unknown: dict[int, None] = {}
    targets: dict[int, int] = {}
    for number, epoch, position in wanted:
        its_epoch, head, marker = known.get(number, (None, 0, 0))
        if its_epoch != epoch:
            unknown[number] = None
        elif (to := min(position, head)) > targets.get(number, marker):
            targets[number] = to
    together: dict[int, list[int]] = {}  # most who acknowledge have read equally much
    for number, to in targets.items():
        together.setdefault(to - known[number][2], []).append(number)
    for by, numbers in together.items():
        moved = {"marker": _frontend.c.marker + by}
        for chunk in chunks(numbers):
            connection.execute(update(_frontend).where(_frontend.c.id.in_(chunk)).values(moved))
    return list(unknown)
