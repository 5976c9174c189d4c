"""How far each frontend subscription was acknowledged. A marker never goes backwards, never
passes the head, and belongs to one epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from tocsin.storage import schema
from tocsin.storage.subscription_rows import chunks

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


def put(connection: Connection, wanted: Sequence[tuple[int, str, int]]) -> list[int]:
    """Move markers (subscription, epoch, position) forward. Returns the ids of subscriptions that
    are not there or are of another epoch, each once, in the order given."""
    known: dict[int, tuple[str, int, int]] = {}
    for some in chunks(sorted({number for number, _, _ in wanted})):
        rows = connection.execute(
            select(_frontend.c.id, _backend.c.epoch, _backend.c.head, _frontend.c.marker)
            .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
            .where(_frontend.c.id.in_(some))
        )
        known.update((number, (epoch, head, marker)) for number, epoch, head, marker in rows)
    unknown: dict[int, None] = {}
    targets: dict[int, int] = {}
    for number, epoch, position in wanted:
        its_epoch, head, marker = known.get(number, (None, 0, 0))
        if its_epoch != epoch:
            unknown[number] = None
        elif (to := min(position, head)) > targets.get(number, marker):
            targets[number] = to
    together: dict[int, list[int]] = {}  # most who acknowledge have read equally far
    for number, to in targets.items():
        together.setdefault(to, []).append(number)
    for to, numbers in together.items():
        for some in chunks(numbers):
            connection.execute(update(_frontend).where(_frontend.c.id.in_(some)).values(marker=to))
    return list(unknown)
