"""How far each frontend subscription was acknowledged. A marker never goes backwards, never
passes the head, and belongs to one epoch.

The head of a filter is the end of its dataset's log, which the store does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from tocsin.model import filtered_dataset
from tocsin.storage.store import schema
from tocsin.storage.store.numbers import listed
from tocsin.storage.store.subscription_rows import chunks

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions
_MARKERS = (
    "SELECT f.id, f.broker, f.marker, b.epoch, b.head, b.channel"  # noqa: S608
    f" FROM {_frontend.name} f JOIN {_backend.name} b ON f.backend = b.id"
)


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
    for chunk in chunks(sorted({number for number, _, _ in wanted})):
        query = f"{_MARKERS} WHERE f.id IN {listed(chunk)}"
        for number, at, marker, epoch, head, channel in connection.exec_driver_sql(query).all():
            if broker is not None and at != broker:
                continue
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
        for chunk in chunks(numbers):
            moved = f"UPDATE {_frontend.name} SET marker = marker + {by:d}"  # noqa: S608
            connection.exec_driver_sql(f"{moved} WHERE id IN {listed(chunk)}")
    return list(unknown)
