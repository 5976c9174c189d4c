"""kill -9 of the cluster's process, Kafka and the database: consumers get all, once, in order."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import create_engine, select

from tocsin.client import consumer_log
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import TocsinError
from tocsin.storage.store import schema

from .world import CONSUMERS, open_world, until, working

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


class Reader(threading.Thread):
    """A consumer that acknowledges all it gets, and at times begins anew where it was."""

    def __init__(self, log: str, subscription: int) -> None:
        super().__init__(daemon=True)
        self.found: list[tuple[int, Any]] = []
        self.failures: list[str] = []
        self._log = log
        self._subscription = subscription
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            after = self.found[-1][0] if self.found else 0
            try:
                with consumer_log(self._log, self._subscription, after) as results:
                    until_s = time.monotonic() + 5.0
                    while time.monotonic() < until_s and not self._ended.is_set():
                        result = results.take(0.5)
                        if result is not None:
                            self.found.append((result.position, result.value))
                            results.ack(result)
                            assert result.lost is None
            except TocsinError as error:  # Kafka is away
                self.failures.append(str(error))
                time.sleep(0.5)

    def end(self) -> None:
        self._ended.set()
        self.join()


def subscriptions(store: str) -> list[int]:
    engine = create_engine(store)
    with engine.connect() as connection:
        ids = select(schema.frontend_subscriptions.c.id).order_by("id")
        found = list(connection.scalars(ids))
    engine.dispose()
    return found


@pytest.mark.parametrize("shared", [False, True])
def test_consumers_get_all_once_in_order_whatever_is_killed(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path, shared: bool
) -> None:
    place: dict[str, Any] = {
        "log": f"{kafka.url}/{uuid.uuid4().hex}",
        "store": postgresql.fresh(),
        "delivery": {"admit": "threshold(0.2,0.8)", "shared": shared},
    }
    file = tmp_path / "settings.json"
    file.write_bytes(msgspec.json.encode(place))
    readers: list[Reader] = []
    for victim in (None, kafka, postgresql):
        child = working(file)
        try:
            if not readers:
                ids = subscriptions(place["store"])  # the child alone may open the store
                assert len(ids) == len(CONSUMERS)
                readers = [Reader(place["log"], one) for one in ids]
                for reader in readers:
                    reader.start()
            time.sleep(1.5)
            if victim is not None:
                victim.kill()
                time.sleep(0.3)
                victim.start()
                time.sleep(1.5)
        finally:
            child.kill()
            child.wait()
    world = open_world(file)
    try:
        world.start()
        wanted = {}
        for one in world.store.subscriptions.all_():
            read = world.store.results.read(one.backend.id, 0, 10**9, 10**6)
            wanted[one.id] = [(r.position, msgspec.json.decode(r.payload)) for r in read.results]
        assert min(len(one) for one in wanted.values()) > 50
        pairs = list(zip(readers, wanted.values(), strict=True))
        until(lambda: all(len(one.found) >= len(all_) for one, all_ in pairs), 120)
        for reader in readers:
            reader.end()
        for reader, results in pairs:
            assert reader.found == results, reader.failures
    finally:
        for reader in readers:
            reader.end()
        world.close()
