"""What was taken of the topics that feed datasets, partition by partition.

Knows no Kafka: a partition is a number, and so is how far it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes

_feeds = schema.feeds


class Place(NamedTuple):
    """All below `done` was taken. What is below `claimed` was about to be, so after a crash it is
    in doubt."""

    done: int
    claimed: int


class Feeds:
    def __init__(self, database: Database) -> None:
        self._database = database

    @reads
    def places(self, connection: Connection, dataset: str, topic: str) -> dict[int, Place]:
        columns = (_feeds.c.partition, _feeds.c.done, _feeds.c.claimed)
        query = select(*columns).where(_feeds.c.dataset == dataset, _feeds.c.topic == topic)
        rows = connection.execute(query)
        return {row.partition: Place(row.done, row.claimed) for row in rows}

    @writes
    def put(self, write: Write, dataset: str, topic: str, places: Mapping[int, Place]) -> None:
        """Remember these partitions' places, all together; the others stay as they are."""
        rows = [
            {"dataset": dataset, "topic": topic, "partition": partition, **place._asdict()}
            for partition, place in places.items()
        ]
        if not rows:
            return
        write.connection.execute(
            delete(_feeds).where(
                _feeds.c.dataset == dataset,
                _feeds.c.topic == topic,
                _feeds.c.partition.in_(list(places)),
            )
        )
        write.connection.execute(insert(_feeds), rows)

    @writes
    def drop(self, write: Write, dataset: str) -> None:
        write.connection.execute(delete(_feeds).where(_feeds.c.dataset == dataset))
