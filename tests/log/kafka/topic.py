"""A topic as any other program sees it, by plain clients of Kafka."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tocsin.dev.kafka import Kafka

PATIENCE_S = 60.0
Headers = list[tuple[str, str | bytes | None]]


class Topic:
    def __init__(self, server: Kafka, name: str) -> None:
        self.name = name
        self._common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": server.address,
            "log_level": 0,
        }
        self._admin = AdminClient(self._common)

    def create(self, partitions: int = 1, **config: str) -> Topic:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            futures = self._admin.create_topics([NewTopic(self.name, partitions, config=dotted)])
            try:
                futures[self.name].result(PATIENCE_S)
                return self
            except KafkaException:  # the old one is still being deleted
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(PATIENCE_S)

    def partitions(self) -> list[int]:
        described = self._admin.describe_topics(TopicCollection([self.name]))[self.name]
        return [partition.id for partition in described.result(PATIENCE_S).partitions]

    def config(self, name: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        config = self._admin.describe_configs([resource])[resource].result(PATIENCE_S)
        return str(config[name].value)

    def write(
        self,
        values: Sequence[bytes | None],
        headers: Sequence[Headers] | None = None,
        *,
        partition: int = 0,
        key: bytes | None = None,
    ) -> None:
        """Returns when all are there."""
        producer = Producer(self._common | {"message.max.bytes": 20_000_000})
        failed: list[object] = []

        def on_delivery(error: object, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for number, value in enumerate(values):
            producer.produce(
                self.name,
                value,
                key,
                partition=partition,
                headers=headers[number] if headers else None,
                on_delivery=on_delivery,
            )
        assert producer.flush(PATIENCE_S) == 0
        assert not failed

    def read(self, count: int, start: int = 0) -> list[Message]:
        consumer = Consumer(self._common | {"group.id": self.name, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.name, 0, start)])
        messages = consumer.consume(count, PATIENCE_S)
        consumer.close()
        assert all(message.error() is None for message in messages)
        return messages
