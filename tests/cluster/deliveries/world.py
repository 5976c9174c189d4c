"""A store with a channel that delivers, and results on their way; run as a program, it works until
it is killed: `python world.py settings.json`."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tocsin.cluster.deliveries import Deliveries
from tocsin.errors import NotFound, TocsinError
from tocsin.model import Channel, Dataset, Delivery, Parameter
from tocsin.settings import Settings
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

CONSUMERS = (("ann", "flood"), ("bob", "flood"), ("eve", "fire"))


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

    def commit(
        self,
        *rows: tuple[int, Any],
        at: float | None = None,
        record: int = 0,
        one_record: bool = False,
    ) -> None:
        """Results of one run: (backend subscription, value); of one record, or of one each."""
        found = [(backend, msgspec.json.encode(value)) for backend, value in rows]
        now = time.time() if at is None else at
        run = Run("alerts", f"batch-{time.monotonic_ns()}", now, now)
        records = [record if one_record else record + number for number in range(len(found))]
        assert self.store.runs.commit_run(run, found, records)
        self.deliveries.committed("alerts")

    def close(self) -> None:
        """May be called twice."""
        self.deliveries.stop()
        self.store.close()


def until(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    ends_at = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_at, "it never came to be"
        time.sleep(0.05)


def make_topic(servers: str, name: str, partitions: int = 3, **config: str) -> None:
    """`config`: with _ for every dot."""
    admin = AdminClient({"bootstrap.servers": servers})
    named = {key.replace("_", "."): value for key, value in config.items()}
    made = admin.create_topics([NewTopic(name, num_partitions=partitions, config=named)])
    made[name].result(30)


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
    until(lambda: consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
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


def open_world(file: Path) -> World:
    found = msgspec.json.decode(file.read_bytes(), type=dict)
    settings = Settings(log=found["log"], store=found["store"], consumer_log_mark_s=0.2)
    return World(settings, Delivery(**found["delivery"]))


def working(file: Path) -> subprocess.Popen[str]:
    """A child that delivers what it commits, without pause."""
    words = [sys.executable, __file__, str(file)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "works\n"
    return child


def main() -> None:
    world = open_world(Path(sys.argv[1]))
    world.start()
    both, alone = (world.subscribe(*one).backend.id for one in CONSUMERS[1:])
    world.subscribe(*CONSUMERS[0])
    print("works", flush=True)
    for number in itertools.count():
        rows = [(both, {"n": number}), (alone, {"n": number})][number % 3 == 0 :]
        try:
            world.commit(*rows, record=number, one_record=True)
        except TocsinError:  # the database was killed: it comes back
            time.sleep(0.2)
        time.sleep(0.005)


if __name__ == "__main__":
    main()
