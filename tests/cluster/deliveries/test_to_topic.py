"""DELIVER TO KAFKA: each result once and in order, whatever is killed."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tocsin.cluster.deliveries import Deliveries
from tocsin.dev.kafka import Kafka
from tocsin.errors import NotFound, SettingError
from tocsin.model import Delivery
from tocsin.settings import Settings

from .world import World, make_topic, read_topic, until, working

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture
def place(kafka: Kafka, tmp_path: Path) -> dict[str, Any]:
    name = uuid.uuid4().hex
    make_topic(kafka.address, name)
    return {
        "log": f"{kafka.url}/{name}",
        "store": f"sqlite:///{tmp_path}/store.db",
        "delivery": {"topic": name},
    }


@pytest.fixture
def world(place: dict[str, Any]) -> Iterator[World]:
    made = World(Settings(log=place["log"], store=place["store"]), Delivery(**place["delivery"]))
    yield made
    made.close()


def stored(world: World) -> list[dict[str, Any]]:
    """What the topic has to show, in the order of commits."""
    results = world.store.deliveries.read("alerts", 0, 10**6).results
    return [
        {
            "channel": "alerts",
            "backend": result.backend,
            "arguments": msgspec.json.decode(result.arguments),
            "position": result.position,
            "at": result.created_at,
            "value": msgspec.json.decode(result.payload),
        }
        for result in results
    ]


def by_key(found: list[tuple[bytes, Any]]) -> dict[int, list[Any]]:
    made: dict[int, list[Any]] = {}
    for key, value in found:
        made.setdefault(int(key), []).append(value)
    return made


def expected(world: World) -> dict[int, list[Any]]:
    return by_key([(b"%d" % one["backend"], one) for one in stored(world)])


def test_every_result_is_in_the_topic_in_order(
    world: World, place: dict[str, Any], kafka: Kafka
) -> None:
    flood, fire = (world.subscribe("ann", kind).backend.id for kind in ("flood", "fire"))
    world.commit((flood, {"n": 1}), (fire, {"n": 2}))  # before anybody delivers
    world.start()
    world.commit((flood, {"n": 3}), (flood, {"n": 4}))
    found = read_topic(kafka.address, place["delivery"]["topic"], 4)
    assert by_key(found) == expected(world)
    description = dict(world.deliveries.describe(world.channel))
    assert description["delivers to"] == f"Kafka topic {place['delivery']['topic']}"
    assert description["delivery's trouble"] == "none"


def test_results_of_others_and_of_dropped_namesakes_are_not_delivered(
    world: World, place: dict[str, Any], kafka: Kafka
) -> None:
    """Numbers grow on when all results are gone, so that what comes later is still new."""
    mine = world.subscribe("ann", "flood")
    world.start()
    world.commit((mine.backend.id, {"n": 1}))
    assert len(read_topic(kafka.address, place["delivery"]["topic"], 1)) == 1
    world.store.subscriptions.unsubscribe(mine.id)
    again = world.subscribe("ann", "flood")
    world.commit((again.backend.id, {"n": 2}))
    found = read_topic(kafka.address, place["delivery"]["topic"], 2)
    assert sorted(value["value"]["n"] for _, value in found) == [1, 2]


def test_results_that_expired_undelivered_are_told(
    world: World, place: dict[str, Any], kafka: Kafka
) -> None:
    flood = world.subscribe("ann", "flood").backend.id
    world.start()
    world.commit((flood, {"n": 1}), at=1000.0)
    read_topic(kafka.address, place["delivery"]["topic"], 1)
    kafka.pause()
    try:
        world.commit((flood, {"n": 2}), (flood, {"n": 3}), at=1000.0)
        until(lambda: world.store.results.expire(2000.0) >= 0)
    finally:
        kafka.resume()
    world.commit((flood, {"n": 4}))
    until(lambda: dict(world.deliveries.describe(world.channel)).get("delivered up to") == "4 of 4")
    description = dict(world.deliveries.describe(world.channel))
    values = [v["value"]["n"] for _, v in read_topic(kafka.address, place["delivery"]["topic"], 2)]
    assert values[0] == 1
    assert values[-1] == 4
    assert int(description.get("expired undelivered", 0)) == 4 - len(values)


def test_a_result_that_the_topic_does_not_take_keeps_nobody_waiting(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = uuid.uuid4().hex
    make_topic(kafka.address, topic, partitions=1, max_message_bytes="20000")
    settings = Settings(log=f"{kafka.url}/{topic}", store=f"sqlite:///{tmp_path}/store.db")
    world = World(settings, Delivery(topic=topic))
    try:
        flood = world.subscribe("ann", "flood").backend.id
        large = random.Random(1).randbytes(40_000).hex()
        world.commit((flood, {"n": 1}), (flood, {"n": large}), (flood, {"n": 3}))
        world.start()
        found = [value for _, value in read_topic(kafka.address, topic, 3)]
    finally:
        world.close()
    assert [one["position"] for one in found] == [1, 2, 3]
    assert [one["value"] for one in found] == [{"n": 1}, None, {"n": 3}]
    assert [one.get("too_large", 0) > 80_000 for one in found] == [False, True, False]


def test_nothing_is_lost_or_doubled_when_everything_is_killed(
    place: dict[str, Any], kafka: Kafka, tmp_path: Path
) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(msgspec.json.encode(place))
    topic = place["delivery"]["topic"]
    for number in range(4):
        with working(file) as child:
            time.sleep(0.7 + 0.3 * number)
            if number == 2:
                kafka.kill()
                time.sleep(0.5)
                kafka.start()
                time.sleep(2.0)
            child.kill()
    world = World(Settings(log=place["log"], store=place["store"]), Delivery())
    try:
        last = world.store.deliveries.last_number()
        world.start()
        until(
            lambda: f"{last} of {last}" in dict(world.deliveries.describe(world.channel)).values()
        )
        wanted = stored(world)
        found = read_topic(kafka.address, topic, len(wanted))
        assert len(found) == len(wanted) > 100
        assert by_key(found) == expected(world)
    finally:
        world.close()


def test_only_one_cluster_delivers_a_channel(world: World, place: dict[str, Any]) -> None:
    flood = world.subscribe("ann", "flood").backend.id
    world.start()
    world.commit((flood, {"n": 1}))
    until(lambda: dict(world.deliveries.describe(world.channel))["delivered up to"] == "1 of 1")
    second = Deliveries(world.settings, world.store)  # Kafka tells them apart by itself
    try:
        second.start(world.store.catalog.channels())
        until(lambda: dict(second.describe(world.channel))["delivered up to"] == "1 of 1")
        world.commit((flood, {"n": 2}))
        until(
            lambda: (
                "another cluster"
                in dict(world.deliveries.describe(world.channel))["delivery's trouble"]
            )
        )
        until(lambda: dict(second.describe(world.channel))["delivered up to"] == "2 of 2")
    finally:
        second.stop()


def test_what_cannot_be_delivered_is_refused_with_the_remedy(
    world: World, place: dict[str, Any]
) -> None:
    with pytest.raises(NotFound, match=r"no topic 'nowhere'.*create it first"):
        world.deliveries.check(Delivery(topic="nowhere"))
    with pytest.raises(SettingError, match=r"needs a publication log on Kafka") as caught:
        Deliveries(Settings(), world.store).check(Delivery(topic="any"))
    assert caught.value.field == "log"
