"""DELIVER TO KAFKA 'topic': every result into one topic of the user's, keyed by backend
subscription, so that Kafka keeps the order of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
            told: dict[str, Any] = {
                "channel": self._channel,
                "backend": one.backend,
                "arguments": msgspec.Raw(one.arguments.encode()),
                "position": one.position,
                "at": one.created_at,
            }
            if out.takes(one.number):
                told["value"] = msgspec.Raw(one.payload)
            else:
                told |= {"value": None, "too_large": len(one.payload)}
            key = b"%d" % one.backend
            value = msgspec.json.encode(told)
            out.produce(self._topic, key, value, one_partition=False, number=one.number)
        return {}

    def due(self, caught_up: bool) -> bool:
        return False

    def write_due(self, out: Transactions) -> None:
        """Nothing is ever due."""

    def next_due_s(self) -> float | None:
        return None
