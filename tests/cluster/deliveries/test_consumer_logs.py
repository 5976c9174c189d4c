"""DELIVER TO CONSUMER LOGS: who reads its log gets everything in order and once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tocsin.client import consumer_log
from tocsin.cluster.deliveries import to_consumer_logs
from tocsin.dev.kafka import Kafka
from tocsin.errors import InvalidInput, NotFound
from tocsin.model import Delivery
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress

from .world import World, read_topic, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

Make = Callable[..., World]


@pytest.fixture
def make(kafka: Kafka, tmp_path: Path) -> Iterator[Make]:
    settings = Settings(
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=f"sqlite:///{tmp_path}/store.db",
        consumer_log_mark_s=0.1,
    )
    worlds: list[World] = []

    def one(**delivery: Any) -> World:
        worlds.append(World(settings, Delivery(**delivery)))
        return worlds[-1]

    yield one
    for world in worlds:
        world.close()


def names(world: World) -> KafkaAddress:
    return KafkaAddress.parse(world.settings.log)


def raw(world: World, kafka: Kafka, subscription: int, enough: int) -> list[Any]:
    topic = names(world).consumer_topic(subscription)
    return [value for _, value in read_topic(kafka.address, topic, enough)]


def taken(world: World, subscription: int, count: int, after: int | None = 0) -> list[Any]:
    topic = names(world).consumer_topic(subscription)
    known = AdminClient({"bootstrap.servers": names(world).servers})
    until(lambda: topic in known.list_topics(timeout=10).topics)  # made when the world starts
    with consumer_log(world.settings.log, subscription, after) as log:
        found = [log.take(60.0) for _ in range(count)]
        assert all(found)
        assert log.take(0.3) is None
    return found


@pytest.mark.parametrize("admit", ["all", "none"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_value_that_no_log_takes_is_told_in_its_place(
    make: Make, shared: bool, admit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_consumer_logs, "LARGEST_VALUE_BYTES", 1000)
    world = make(admit=admit, shared=shared)
    ann = world.subscribe("ann", "flood")
    for number, size in enumerate([1, 2000, 1]):
        world.commit((ann.backend.id, {"n": "x" * size}), record=number)
    world.start()
    found = taken(world, ann.id, 3)
    assert [one.value for one in found] == [{"n": "x"}, None, {"n": "x"}]
    assert [one.too_large > 2000 for one in found] == [False, True, False]


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_admitted_is_in_the_logs_at_once_and_the_rest_is_filled(
    make: Make, kafka: Kafka, shared: bool
) -> None:
    """Three consumers, two share a subscription; `threshold` by hand: see the levels."""
    world = make(admit="threshold(0.2,0.8)", shared=shared)
    ann, bob = world.subscribe("ann", "flood"), world.subscribe("bob", "flood")
    eve = world.subscribe("eve", "fire")
    flood, fire = ann.backend.id, eve.backend.id
    # n: 2 (0 → 0.4) yes, 1 (0.4 → 0.6) yes, 1 (0.6 → 0.8) yes, 1 → 1.0 yes, 1 → 1.2 yes, 1 no
    for number, backend in enumerate([flood, fire, fire, fire, fire, fire]):
        world.commit((backend, {"n": number}), record=number)
    world.start()
    fires = raw(world, kafka, eve.id, 5)
    assert [one["position"] for one in fires] == [1, 2, 3, 4, 5]  # and a mark, told below
    if not shared:
        assert [one["value"]["n"] for one in fires if "value" in one] == [1, 2, 3, 4]
    assert [one.value["n"] for one in taken(world, eve.id, 5)] == [1, 2, 3, 4, 5]
    for each in (ann, bob):
        assert [one.value["n"] for one in taken(world, each.id, 1)] == [0]
    # Who asked has it in its log now, whole.
    assert raw(world, kafka, eve.id, 6)[-1]["value"] == {"n": 5}


@pytest.mark.parametrize("shared", [False, True])
def test_a_shared_value_is_stored_once(make: Make, kafka: Kafka, shared: bool) -> None:
    world = make(admit="all", shared=shared)
    both = [world.subscribe(name, "flood") for name in ("ann", "bob")]
    eve = world.subscribe("eve", "fire")
    world.start()
    rows = [(both[0].backend.id, {"n": 1}), (eve.backend.id, {"n": 1})]
    found = [(backend, value) for backend, value in rows]
    world.commit(*found, one_record=True)
    assert [taken(world, one.id, 1)[0].value for one in (*both, eve)] == [{"n": 1}] * 3
    in_log = raw(world, kafka, eve.id, 1)
    if shared:
        values = read_topic(kafka.address, names(world).shared_topic("alerts"), 1)
        assert [value for _, value in values] == [{"n": 1}]
        assert in_log[0]["shared"] == 0
        assert "value" not in in_log[0]
    else:
        assert in_log[0]["value"] == {"n": 1}


@pytest.mark.parametrize("shared", [False, True])
def test_what_left_a_log_is_filled_from_the_store(make: Make, kafka: Kafka, shared: bool) -> None:
    world = make(shared=shared, keep_bytes=5000)
    ann = world.subscribe("ann", "flood")
    world.start()
    world.commit(*[(ann.backend.id, {"n": n}) for n in range(1, 6)])
    raw(world, kafka, ann.id, 5)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    address = names(world)
    topic = address.shared_topic("alerts") if shared else address.consumer_topic(ann.id)
    upto = TopicPartition(topic, 0, 3)
    admin.delete_records([upto])[upto].result(30)
    assert [one.value["n"] for one in taken(world, ann.id, 5)] == [1, 2, 3, 4, 5]
    # The last of all may leave, and nothing comes after it.
    upto = TopicPartition(topic, 0, -1)
    admin.delete_records([upto])[upto].result(30)
    world.commit((ann.backend.id, {"n": 6}))
    assert [one.value["n"] for one in taken(world, ann.id, 6)] == [1, 2, 3, 4, 5, 6]


def test_a_consumer_goes_on_behind_what_it_acknowledged(make: Make, kafka: Kafka) -> None:
    world = make(admit="mean(2)")
    ann = world.subscribe("ann", "flood")
    world.start()
    with pytest.raises(InvalidInput, match="nothing of subscription"):
        consumer_log(world.settings.log, ann.id)
    world.commit(*[(ann.backend.id, {"n": n}) for n in range(1, 9)])
    with consumer_log(world.settings.log, ann.id, ann.marker) as log:
        for _ in range(5):
            result = log.take(60)
        assert result is not None
        log.ack(result)
    assert [one.position for one in taken(world, ann.id, 3, after=None)] == [6, 7, 8]
    assert [one.position for one in taken(world, ann.id, 6, after=2)] == list(range(3, 9))


def test_consumer_gets_only_what_was_made_since_it_subscribed(make: Make, kafka: Kafka) -> None:
    world = make()
    ann = world.subscribe("ann", "flood")
    world.commit((ann.backend.id, {"n": 1}))
    bob = world.subscribe("bob", "flood")
    assert bob.marker == 1
    world.commit((ann.backend.id, {"n": 2}))
    world.start()
    assert [one["position"] for one in raw(world, kafka, bob.id, 1)] == [2]
    assert [one.value["n"] for one in taken(world, bob.id, 1, after=bob.marker)] == [2]
    assert [one.value["n"] for one in taken(world, ann.id, 2, after=ann.marker)] == [1, 2]


def test_what_others_wrote_into_a_log_is_passed_over(make: Make, kafka: Kafka) -> None:
    world = make()
    ann = world.subscribe("ann", "flood")
    world.start()
    world.commit((ann.backend.id, {"n": 1}))
    raw(world, kafka, ann.id, 1)
    producer = Producer({"bootstrap.servers": kafka.address})
    for strange in (b"{}", b'"\xff"', b"[" * 100_000):
        producer.produce(names(world).consumer_topic(ann.id), strange)
    assert producer.flush(20) == 0
    world.commit((ann.backend.id, {"n": 2}))
    assert [one.value["n"] for one in taken(world, ann.id, 2)] == [1, 2]


def test_what_expired_everywhere_is_told(make: Make) -> None:
    world = make(admit="none")
    ann = world.subscribe("ann", "flood")
    world.start()
    world.commit((ann.backend.id, {"n": 1}), (ann.backend.id, {"n": 2}), at=1000.0)
    world.commit((ann.backend.id, {"n": 3}))
    world.store.results.expire(2000.0)
    (only,) = taken(world, ann.id, 1)
    assert (only.value, only.lost) == ({"n": 3}, (1, 2))


def test_the_policy_remembers_across_restarts(make: Make, kafka: Kafka) -> None:
    world = make(admit="threshold(3,0.5)")
    ann = world.subscribe("ann", "flood")
    world.commit((ann.backend.id, {"n": 1}))  # 0 → 3: the next two are not admitted
    world.start()
    raw(world, kafka, ann.id, 1)
    world.close()
    second = make()
    second.start()
    second.commit((ann.backend.id, {"n": 2}))
    second.commit((ann.backend.id, {"n": 3}))
    until(lambda: raw(second, kafka, ann.id, 2)[-1]["position"] == 3)  # a mark
    values = [one for one in raw(second, kafka, ann.id, 2) if "value" in one]
    assert [one["value"]["n"] for one in values] == [1]
    assert [one.value["n"] for one in taken(second, ann.id, 3)] == [1, 2, 3]


def test_logs_come_and_go_with_their_subscriptions(make: Make, kafka: Kafka) -> None:
    world = make()
    world.start()
    ann, bob = world.subscribe("ann", "flood"), world.subscribe("bob", "flood")
    admin = AdminClient({"bootstrap.servers": kafka.address})

    def logs() -> set[str]:
        start = names(world).consumer_topics
        return {one for one in admin.list_topics(timeout=30).topics if one.startswith(start)}

    until(lambda: logs() == {names(world).consumer_topic(one.id) for one in (ann, bob)})
    world.deliveries.unsubscribed(world.store.subscriptions.unsubscribe(ann.id))
    until(lambda: logs() == {names(world).consumer_topic(bob.id)})
    world.close()
    second = make()
    second.store.subscriptions.unsubscribe(bob.id)  # and nobody was told
    second.start()
    until(lambda: logs() == set())


def test_a_subscription_without_a_log_is_told(make: Make) -> None:
    world = make()
    with pytest.raises(NotFound, match="subscription 77 has no consumer log"):
        consumer_log(world.settings.log, 77, 0)
