"""The subscriptions of the fake cluster, and their results, in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tocsin.beginnings import checked
from tocsin.model import Beginning


@dataclass
class Backend:
    id: int
    channel: str
    arguments: dict[str, Any]
    epoch: str
    results: list[dict[str, Any]] = field(default_factory=list)
    head: int = 0
    floor: int = 0
    changed: int = 0  # sequence of the last change

    def marker(self, given: Any) -> int:
        """Where a subscription with this `from` begins."""
        if given is None:
            return self.head
        beginning = checked(msgspec.convert(given, Beginning))
        if beginning.last is not None:
            return max(self.floor, self.head - beginning.last)
        since = time.time() - (beginning.seconds or 0.0)
        recent = [result["position"] for result in self.results if result["at"] >= since]
        return recent[0] - 1 if recent else self.head

    def between(self, after: int, upto: int, limit: int = 1000) -> dict[str, Any]:
        results = [result for result in self.results if after < result["position"] <= upto]
        return {"floor": self.floor, "head": self.head, "results": results[:limit]}


@dataclass
class Frontend:
    id: int
    subscriber: str
    broker: str
    backend: Backend
    marker: int
