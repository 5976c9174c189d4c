"""DELIVER TO KAFKA 'topic': every result into one topic of the user's, keyed by backend
subscription, so that Kafka keeps the order of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from tocsin.cluster.deliveries.transactions import Transactions
from tocsin.protocol import consumer_log
from tocsin.storage.store.deliveries import Deliverable


class ToTopic:
    def __init__(self, channel: str, topic: str) -> None:
        self._channel = channel
        self._topic = topic

    def opened(self, memory: dict[str, float]) -> None:
        """Nothing to remember."""

    def write(self, results: Sequence[Deliverable], out: Transactions) -> dict[str, float]:
        for result in results:
            taken = out.takes(result.number)
            message = consumer_log.TopicResult(
                self._channel,
                result.backend,
                Raw(result.arguments.encode()),
                result.position,
                result.created_at,
                Raw(result.payload) if taken else consumer_log.NULL,
                0 if taken else len(result.payload),
            )
            key, value = consumer_log.encode_key(result.backend), consumer_log.encode(message)
            out.produce(self._topic, key, value, one_partition=False, number=result.number)
        return {}

    def due(self, caught_up: bool) -> bool:
        return False

    def write_due(self, out: Transactions) -> None:
        """Nothing is ever due."""

    def next_due_s(self) -> float | None:
        return None
