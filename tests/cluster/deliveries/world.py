"""A store with a channel that delivers, and results on their way; run as a program, it works until
it is killed: `python world.py settings.json`."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tocsin.cluster.deliveries import Deliveries
from tocsin.errors import NotFound
from tocsin.model import Channel, Dataset, Delivery, Parameter
from tocsin.settings import Settings
from tocsin.storage.runs import Run
from tocsin.storage.store import Store

KINDS = ("flood", "fire", "storm")


class World:
    """What a cluster is to its deliveries: a store, its settings, somebody who commits runs."""

    def __init__(self, settings: Settings, delivery: Delivery) -> None:
        self.settings = settings
        self.store = Store.open(settings.store)
        try:
            self.channel = self.store.catalog.channel("alerts")
        except NotFound:
            self.channel = self._make(delivery)
        self.deliveries = Deliveries(settings, self.store)

    def _make(self, delivery: Delivery) -> Channel:
        self.store.catalog.create_dataset(Dataset("reports", ()))
        return self.store.catalog.create_channel(
            Channel(
                name="alerts",
                kind="continuous",
                parameters=(Parameter("kind", "STRING"),),
                query="SELECT * FROM NEW reports WHERE kind = :kind",
                reads=("reports",),
                new=("reports",),
                delivery=delivery,
            )
        )

    def subscribe(self, subscriber: str, kind: str) -> Any:
        made, _ = self.store.subscriptions.subscribe(subscriber, "alerts", {"kind": kind}, None)
        self.deliveries.subscribed(made)
        return made

    def start(self) -> None:
        self.deliveries.start(self.store.catalog.channels())

    def commit(self, *rows: tuple[int, Any], at: float | None = None, record: int = 0) -> None:
        """Results of one run: (backend subscription, value); one record each, from `record` on."""
        found = [(backend, msgspec.json.encode(value)) for backend, value in rows]
        now = time.time() if at is None else at
        run = Run("alerts", f"batch-{time.monotonic_ns()}", now, now)
        assert self.store.runs.commit_run(run, found, list(range(record, record + len(found))))
        self.deliveries.committed("alerts")

    def close(self) -> None:
        self.deliveries.stop()
        self.store.close()


def make_topic(servers: str, name: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(30)


def read_topic(servers: str, topic: str, enough: int, *, limit_s: float = 60.0) -> list[Any]:
    """(key, value) of what any careful reader sees: until there are enough, and no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, one, 0) for one in partitions])
    found: list[Any] = []
    ends_at = time.monotonic() + limit_s
    while time.monotonic() < ends_at:
        some = consumer.consume(1000, timeout=0.5)
        assert all(one.error() is None for one in some)
        found += [(one.key(), msgspec.json.decode(one.value() or b"null")) for one in some]
        if not some and len(found) >= enough:
            break
    consumer.close()
    return found


def main() -> None:
    settings = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=dict)
    world = World(
        Settings(log=settings["log"], store=settings["store"]),
        msgspec.convert(settings["delivery"], Delivery),
    )
    backends = [world.subscribe("ann", kind).backend.id for kind in KINDS]
    world.start()
    last = world.store.deliveries.last_number()
    print("works", flush=True)
    for number in itertools.count(last):
        rows = [(backend, {"n": number, "kind": kind}) for backend in backends for kind in KINDS]
        world.commit(*rows, record=number)
        time.sleep(0.005)


if __name__ == "__main__":
    main()
