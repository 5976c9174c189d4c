"""How far the matches of real-time channels were taken, for each partition of their topic.

The row is progress and fence in one. It moves in the transaction that stores what matches became,
and only from where that transaction began: of two who have read the same matches, one moves the
row, and the other finds it moved and stores nothing. `generation` grows by one when somebody who
has taken the store begins, so that whoever took matches for its former holder stops.

A commit also leaves who made it. By that it is known again when its answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from tocsin.storage.store import schema
from tocsin.storage.store.write import SharedWrite

_rows = schema.match_partitions


class Place(NamedTuple):
    """Where the matches of a partition go on, as far as somebody knows."""

    topic: str
    partition: int
    up_to: int
    generation: int


class Moved(Exception):
    """Another has taken these matches, or the store: the row says where they go on."""

    def __init__(self, place: Place, holder: str) -> None:
        super().__init__(
            f"the matches of partition {place.partition} of {place.topic} were taken up to"
            f" {place.up_to} by another: {holder}"
        )


class Row(NamedTuple):
    place: Place
    holder: str  # of the last commit
    at: float  # of its results


def places(connection: Connection, topic: str) -> dict[int, Place]:
    """By partition; of those that somebody has begun."""
    query = select(_rows.c.partition, _rows.c.up_to, _rows.c.generation)
    rows = connection.execute(query.where(_rows.c.topic == topic))
    return {partition: Place(topic, partition, *values) for partition, *values in rows}


def begin(connection: Connection, topic: str, partitions: Iterable[int]) -> None:
    """Have a row for each. Whoever takes matches for a former holder of the store stops before its
    next commit."""
    grown = update(_rows).where(_rows.c.topic == topic)
    connection.execute(grown.values(generation=_rows.c.generation + 1))
    there = places(connection, topic)
    new = [
        {"topic": topic, "partition": partition, "up_to": 0, "generation": 0}
        | {"holder": "", "at": 0.0}
        for partition in partitions
        if partition not in there
    ]
    if new:
        connection.execute(insert(_rows), new)


def lock(write: SharedWrite, topic: str, partition: int) -> Row | None:
    """The row, which is this transaction's alone. Who still commits is waited for."""
    query = (
        select(_rows.c.up_to, _rows.c.generation, _rows.c.holder, _rows.c.at)
        .where(_rows.c.topic == topic, _rows.c.partition == partition)
        .with_for_update(key_share=True)
    )
    row = write.connection.execute(query).first()
    if row is None:
        return None
    up_to, generation, holder, at = row
    return Row(Place(topic, partition, up_to, generation), holder, at)


def move(write: SharedWrite, place: Place, holder: str, at: float) -> None:
    """The row is locked."""
    write.connection.execute(
        update(_rows)
        .where(_rows.c.topic == place.topic, _rows.c.partition == place.partition)
        .values(up_to=place.up_to, holder=holder, at=at)
    )
