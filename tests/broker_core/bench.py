"""A broker core on the bench: its rules are tried one at a time, faults in combination are the
simulation's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    Effect,
    Fetch,
)
from tocsin.broker.machine.events import Cursor, NewHead, RangeAnswer
from tocsin.errors import TocsinError
from tocsin.model import BackendSubscription, Departure, Result, Subscription
from tocsin.policies import parse_policy

T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """Who asks. The machine only hands it back, in an effect."""

    name: str

    def answered(self, answer: object) -> None:
        raise AssertionError(f"{self.name} was answered by the machine itself")

    def failed(self, error: TocsinError) -> None:
        raise AssertionError(f"{self.name} was answered by the machine itself")


R, S, Q = (Waiting(name) for name in "rsq")


def result(position: int, size_bytes: int = 10) -> Result:
    return Result(7, position, float(position), b"x" * size_bytes)


def results(first: int, last: int) -> list[Result]:
    return [result(position) for position in range(first, last + 1)]


def subscription(
    number: int = 5,
    subscriber: str = "alice",
    *,
    backend: int = 7,
    epoch: str = "A",
    head: int = 0,
    marker: int = 0,
) -> Subscription:
    there = BackendSubscription(backend, "by_type", {"type": "flood"}, epoch, head)
    return Subscription(number, subscriber, "broker_1", there, marker)


def answer(
    first: int, last: int, *, epoch: str = "A", floor: int = 0, head: int = 0
) -> RangeAnswer:
    return RangeAnswer(epoch, floor, max(head, last), results(first, last))


def heads(head: int, *pushed: Result, epoch: str = "A") -> list[NewHead]:
    return [NewHead(7, epoch, head, pushed)]


def gone(subscription: int = 5, to: str | None = None) -> list[Departure]:
    return [Departure(subscription, to)]


def only(effects: list[Effect], kind: type[T]) -> T:
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


class Bench:
    """A core with alice connected on 1, and a clock that tests move by hand."""

    def __init__(
        self,
        policy: str = "lsc",
        *,
        budget_bytes: int = 1000,
        inline: bool = False,
        news_poll_s: float = 1000.0,
    ) -> None:
        self.core = BrokerCore(parse_policy(policy), budget_bytes, 0.0, news_poll_s=news_poll_s)
        self.core.loaded(10, [], self.core.query_token, 0.0)
        self.core.news(10, [], [], 0.0)
        self.core.connected(1, "alice", inline, [subscription()], self.core.query_token, 0.0)

    def grow(self, first: int, last: int, now: float = 1.0) -> list[Effect]:
        """A notice, the fetch it causes, and the answer."""
        fetch = only(self.core.notice(heads(last), [], now), Fetch)
        return self.core.fetched(fetch.fetch, answer(first, last), now)

    def get(self, after: int | None = None, epoch: str | None = None, **more: Any) -> list[Effect]:
        return self.core.get(R, "alice", 5, 2.0, Cursor(after, epoch), **more)

    def ack(self, position: int, epoch: str = "A", request: Waiting | None = None) -> list[Effect]:
        return self.core.ack("alice", 5, epoch, position, 2.0, connection=1, request=request)
