"""The topics of a log: made as they have to be, found as they are, emptied; and whose they are."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    TopicDescription,
)
from confluent_kafka.cimpl import NewTopic

from tocsin.storage.log.kafka.address import KafkaAddress
from tocsin.storage.log.kafka.clients import WAIT_S, unavailable
from tocsin.storage.log.kafka.risks import Risk, risks_of

_logger = structlog.get_logger(__name__)
_T = TypeVar("_T")

KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""The cluster itself deletes records when they are stored and nobody needs them any more."""
LARGEST = "max.message.bytes"
LARGEST_BY_DEFAULT_BYTES = 1_048_588  # where we may not ask


class Topics:
    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._admin = AdminClient(address.client())

    def ensure(self, topic: str, largest_bytes: int = LARGEST_BY_DEFAULT_BYTES) -> int:
        """Make the topic unless it is there; the largest message that it takes."""
        if self.describe(topic) is not None:
            return self._ensure_largest(topic, largest_bytes)
        config = KEPT | {LARGEST: str(largest_bytes)}
        futures = self._admin.create_topics(
            [NewTopic(topic, num_partitions=1, config=config)], operation_timeout=WAIT_S
        )
        try:
            self._answer(futures[topic])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise unavailable(self._address, error.args[0]) from None
        deadline = time.monotonic() + WAIT_S
        while self.describe(topic) is None and time.monotonic() < deadline:
            time.sleep(0.05)  # not every node has heard of it
        return largest_bytes

    def describe(self, topic: str) -> TopicDescription | None:
        """The topic, if there is one."""
        try:
            futures = self._admin.describe_topics(TopicCollection([topic]), request_timeout=WAIT_S)
            description: TopicDescription = self._answer(futures[topic])
            return description
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise unavailable(self._address, error.args[0]) from None

    def beginning_with(self, text: str) -> list[str]:
        """The names of topics."""
        try:
            topics = self._admin.list_topics(timeout=WAIT_S).topics
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None
        return sorted(name for name in topics if name.startswith(text))

    def risks(self, topic: str) -> list[Risk]:
        """How the topic is set to lose records, as far as we may ask."""
        description = self.describe(topic)
        if description is None:
            return []
        replicas = min((len(part.replicas) for part in description.partitions), default=0)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            config = self._answer(self._admin.describe_configs([resource])[resource])
        except KafkaException:
            config = {}
        return risks_of(replicas, {name: str(entry.value) for name, entry in config.items()})

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        place = TopicPartition(topic, partition, before)
        try:
            self._answer(self._admin.delete_records([place], request_timeout=WAIT_S)[place])
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None

    def _ensure_largest(self, topic: str, wanted_bytes: int) -> int:
        """A topic that somebody else made, or that was made when records were smaller."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            config = self._answer(self._admin.describe_configs([resource])[resource])
            taken = int(config[LARGEST].value)
        except (KafkaException, KeyError):
            return min(wanted_bytes, LARGEST_BY_DEFAULT_BYTES)
        if taken >= wanted_bytes:
            return wanted_bytes
        entry = ConfigEntry(LARGEST, str(wanted_bytes), incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        try:
            self._answer(self._admin.incremental_alter_configs([change])[change])
        except KafkaException as error:
            _logger.warning(
                "log.topic_takes_less", topic=topic, bytes=taken, reason=error.args[0].str()
            )
            return taken
        return wanted_bytes

    def _answer(self, future: Future[_T]) -> Any:
        return future.result(2 * WAIT_S)
