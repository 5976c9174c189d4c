"""A core with filter backend subscriptions on the bench: positions have holes."""

from __future__ import annotations

from typing import Any

import msgspec

from broker_core.bench import Bench, R
from tocsin.broker.machine.effects import Effect
from tocsin.broker.machine.events import Cursor, RangeAnswer
from tocsin.model import BackendSubscription, Result, Subscription
from tocsin.overlay.filters import Filter

NUMBER = 8  # of the backend subscription
EVERYTHING = Filter("reports")


def filtered(
    number: int = 6, *, head: int = 10, marker: int = 10, epoch: str = "F", backend: int = NUMBER
) -> Subscription:
    wanted = msgspec.to_builtins(EVERYTHING)
    there = BackendSubscription(backend, "dataset/reports", {}, epoch, head, filter=wanted)
    return Subscription(number, "alice", "broker_1", there, marker)


def record(position: int, backend: int = NUMBER) -> Result:
    return Result(backend, position, float(position), b"x" * 10)


def records(*positions: int) -> list[Result]:
    return [record(position) for position in positions]


def stored(*positions: int, upto: int, floor: int = 0, from_neighbours: int = 0) -> RangeAnswer:
    return RangeAnswer("F", floor, 1000, records(*positions), upto, from_neighbours)


class FilterBench(Bench):
    """Alice, on connection 1, has a filter subscription since position 10 of the log."""

    def __init__(self, policy: str = "lsc", *, inline: bool = False, **more: int) -> None:
        super().__init__(policy, inline=inline, **more)
        self.core.subscribed(filtered(), self.core.query_token, 0.0)

    def routed(self, *positions: int) -> list[Effect]:
        return [
            effect for position in positions for effect in self.core.routed(record(position), 1.0)
        ]

    def get(self, after: int | None = None, epoch: str | None = None, **more: Any) -> list[Effect]:
        return self.core.get(R, "alice", 6, 2.0, Cursor(after, epoch), **more)
