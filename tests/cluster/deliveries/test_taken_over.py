"""A cluster that was replaced delivers nothing, and does not keep its follower from delivering."""

from __future__ import annotations

import uuid

import pytest

from storage.broken_network import BrokenNetwork
from tocsin.cluster.deliveries.transactions import Sizes, Transactions
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.model import Delivery
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress

from .world import World, make_topic, read_topic, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def delivered(world: World) -> str:
    return dict(world.deliveries.describe(world.channel))["delivered up to"]


def test_results_are_delivered_once_though_a_replaced_cluster_comes_back(
    kafka: Kafka, postgresql: PostgreSQL
) -> None:
    topic = uuid.uuid4().hex
    make_topic(kafka.address, topic)
    log, store, network = f"{kafka.url}/{topic}", postgresql.fresh(), BrokenNetwork(postgresql.port)
    old = World(Settings(log=log, store=network.through(store)), Delivery(topic=topic))
    try:
        flood = old.subscribe("ann", "flood").backend.id
        old.start()
        old.commit((flood, {"n": 1}))
        until(lambda: delivered(old) == "1 of 1")
        network.stall()
        new = World(Settings(log=log, store=store), Delivery(topic=topic))
        try:
            new.start()
            new.commit((flood, {"n": 2}))
            until(lambda: delivered(new) == "2 of 2")
            network.flow()
            until(lambda: "taken over" in (old.store.lease.trouble or ""))
            new.commit((flood, {"n": 3}))
            until(lambda: delivered(new) == "3 of 3")
            in_the_last_instant = Transactions(KafkaAddress.parse(log), "alerts", "x", Sizes())
            in_the_last_instant.open()
            new.commit((flood, {"n": 4}))
            until(lambda: delivered(new) == "4 of 4")
            found = [value["value"]["n"] for _, value in read_topic(kafka.address, topic, 4)]
            assert found == [1, 2, 3, 4]
        finally:
            new.close()
    finally:
        network.close()
        old.close()
