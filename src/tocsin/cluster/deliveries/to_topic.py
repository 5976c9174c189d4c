"""DELIVER TO KAFKA 'topic': every result into one topic of the user's, keyed by backend
subscription, so that Kafka keeps the order of each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin.cluster.deliveries.transactions import Transactions
from tocsin.storage.deliveries import Deliverable


class ToTopic:
    def __init__(self, channel: str, topic: str) -> None:
        self._channel = channel
        self._topic = topic

    def opened(self, memory: dict[str, float]) -> None:
        """Nothing to remember."""

    def write(self, results: Sequence[Deliverable], out: Transactions) -> dict[str, float]:
        for one in results:
            value = {
                "channel": self._channel,
                "backend": one.backend,
                "arguments": msgspec.Raw(one.arguments.encode()),
                "position": one.position,
                "at": one.created_at,
                "value": msgspec.Raw(one.payload),
            }
            key = b"%d" % one.backend
            out.produce(self._topic, key, msgspec.json.encode(value), one_partition=False)
        return {}

    def due(self, caught_up: bool) -> bool:
        return False

    def write_due(self, out: Transactions) -> None:
        """Nothing is ever due."""

    def next_due_s(self) -> float | None:
        return None
