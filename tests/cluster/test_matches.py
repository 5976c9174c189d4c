"""What Spark wrote into the topic of matches becomes results; what nobody can store holds up
nothing behind it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tocsin.cluster import match_topic, worker
from tocsin.cluster import matches as module
from tocsin.cluster.matches import MatchConsumer
from tocsin.dev.kafka import Kafka
from tocsin.model import Channel, Dataset, Parameter
from tocsin.service import trouble
from tocsin.storage.log.kafka import KafkaAddress, KafkaReader, Topics
from tocsin.storage.store.store import Store

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

LIMIT_BYTES = 1000
DEEP = b"[" * 100_000 + b"]" * 100_000
STRANGE = (
    b"not JSON",
    b'{"c": "c"}',
    b'{"c":"c","b":"one","p":1,"v":{}}',
    b'{"c":"c","b":1,"p":1,"v":1}',
    b'{"c":"c","b":%d,"p":1,"v":{}}' % (1 << 63),
    b'{"c":"c","b":1,"p":-1,"v":{}}',
    b'{"c":"c","b":1,"p":1,"v":{"x":"\xff"}}',
    b'{"c":"c","b":1,"p":1,"v":{"x":1e999}}',
    b'{"c":"c","b":1,"p":1,"v":{"x":%b}}' % DEEP,
)


class Bench:
    def __init__(self, address: str, directory: Path) -> None:
        self.address = KafkaAddress.parse(address)
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.store.catalog.create_dataset(Dataset("reports", ()))
        parameters = (Parameter("kind", "STRING"),)
        made = Channel("c", "continuous", parameters, "", ("reports",), ("reports",))
        self.store.catalog.create_channel(made)
        subscribed, _ = self.store.subscriptions.subscribe("ann", "c", {"kind": "x"}, None)
        self.backend = subscribed.backend.id
        self.consumer = self.new_consumer()

    def new_consumer(self) -> MatchConsumer:
        consumer = MatchConsumer(
            self.address, self.store.matches, lambda _: None, result_limit_bytes=LIMIT_BYTES
        )
        consumer.start()
        return consumer

    def write(self, *values: bytes | None) -> None:
        producer = Producer(self.address.client())
        for value in values:
            producer.produce(self.address.matches_topic, value)
        assert producer.flush(20) == 0

    def match(self, record: int, size: int = 1) -> bytes:
        value = {"c": "c", "b": self.backend, "p": record, "v": {"x": "x" * size}}
        return json.dumps(value).encode()

    def results(self) -> list[Any]:
        found = self.store.results.read(self.backend, 0, 10**9, 100)
        return [json.loads(result.payload) for result in found.results]


@pytest.fixture
def bench(kafka: Kafka, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(f"{kafka.url}/{uuid.uuid4().hex}", tmp_path)
    yield made
    made.consumer.stop()
    made.store.close()


def until(condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends_at, "it never came to be"
        time.sleep(0.02)


def test_what_others_write_into_the_topic_holds_up_no_match(bench: Bench) -> None:
    strange = (*STRANGE, b"", None)
    bench.write(bench.match(1), *strange, bench.match(2))
    until(lambda: len(bench.results()) == 2)
    assert bench.results() == [{"x": "x"}, {"x": "x"}]
    assert bench.consumer.troubles.of(module.NAME) is None
    until(lambda: bench.consumer.waiting == 0)


def test_a_match_that_is_too_large_is_told_in_its_place(bench: Bench) -> None:
    bench.write(bench.match(1), bench.match(2, 2 * LIMIT_BYTES), bench.match(3))
    until(lambda: len(bench.results()) == 3)
    first, gap, last = bench.results()
    assert first == last == {"x": "x"}
    assert gap["_gap"]["first"] == 2
    assert "result_limit_bytes = 1000" in gap["_gap"]["cause"]


def test_a_store_that_takes_no_matches_is_told_and_nothing_is_skipped(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(worker, "RETRY_S", 0.05)
    monkeypatch.setattr(trouble, "STUCK_S", 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(bench.store.matches, "commit", refuse)
        bench.write(bench.match(1))
        until(lambda: bench.consumer.troubles.lasting())
        assert bench.consumer.troubles.lasting() == [f"{module.NAME}: no room"]
    until(lambda: bench.results() == [{"x": "x"}])
    until(lambda: not bench.consumer.troubles.lasting())


def test_matches_that_somebody_deleted_are_told_and_not_passed_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "RETRY_S", 0.05)
    monkeypatch.setattr(trouble, "STUCK_S", 0.0)
    bench.write(bench.match(1))
    until(lambda: len(bench.results()) == 1)
    bench.consumer.stop()
    bench.write(bench.match(2), bench.match(3), bench.match(4))
    topic = bench.address.matches_topic
    Topics(bench.address).delete_records(topic, 3)
    bench.consumer = bench.new_consumer()
    until(lambda: bench.consumer.troubles.lasting())
    (said,) = bench.consumer.troubles.lasting()
    assert f"from offset 1 of {topic}" in said
    assert "those from 3 up to 4" in said
    time.sleep(0.3)
    assert len(bench.results()) == 1
    with bench.store._database.engine.begin() as connection:  # as docs/how-to/repair.md says
        connection.exec_driver_sql("UPDATE match_partitions SET up_to = 3")
    until(lambda: len(bench.results()) == 2)
    until(lambda: not bench.consumer.troubles.lasting())


def test_what_was_stored_for_long_is_deleted_and_what_was_not_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bounds() -> tuple[int, int]:
        reader = KafkaReader(bench.address)
        try:
            return reader.bounds(bench.address.matches_topic)
        finally:
            reader.close()

    monkeypatch.setattr(match_topic, "TIDY_EVERY_S", 0.1)
    bench.write(bench.match(1), bench.match(2))
    until(lambda: len(bench.results()) == 2)
    time.sleep(0.5)
    assert bounds() == (0, 2)
    monkeypatch.setattr(match_topic, "KEPT_S", 0.0)
    bench.write(bench.match(3))
    until(lambda: bounds() == (3, 3))
    assert len(bench.results()) == 3
