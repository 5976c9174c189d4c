"""The client algorithm: a cursor per subscription, dedupe by position, get after a signal, ack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tocsin.broker.effects import Answer, SendInline, Signal
from tocsin.model import Subscription
from tocsin.simulation.checkers import DeliveryChecker, promise


@dataclass
class Feed:
    backend: int
    epoch: str
    cursor: int
    head: int
    asked: bool = False


@dataclass
class SimulatedClient:
    name: str
    inline: bool
    limit: int
    checker: DeliveryChecker
    send: Callable[[tuple[Any, ...]], None]  # to the broker, on the present connection
    acks: Callable[[], bool]  # whether it acknowledges now
    connection: int | None = None
    feeds: dict[int, Feed] = field(default_factory=dict)

    def welcomed(self, subscriptions: list[Subscription]) -> None:
        listed = {one.id for one in subscriptions}
        for gone in [number for number in self.feeds if number not in listed]:
            self.forget(gone)
        for one in subscriptions:
            self.opened(one)
        self.look()

    def opened(self, one: Subscription) -> None:
        feed = self.feeds.get(one.id)
        if feed is None or feed.epoch != one.backend.epoch:
            self._start(one.id, one.backend.id, one.backend.epoch, one.marker)
            feed = self.feeds[one.id]
        feed.asked = False
        feed.head = max(feed.head, one.backend.head)

    def subscribed(self, one: Subscription) -> None:
        self.opened(one)
        self.look()

    def _start(self, number: int, backend: int, epoch: str, position: int) -> None:
        self.checker.started(self.name, number, epoch, position)
        self.feeds[number] = Feed(backend, epoch, position, position)

    def forget(self, number: int) -> None:
        del self.feeds[number]
        self.checker.forgotten(self.name, number)

    def ended(self, number: int) -> None:
        self.checker.told_end(self.name, number)
        if number in self.feeds:
            self.forget(number)

    def look(self) -> None:
        """Ask where something is known to be missing; one get at a time."""
        for number, feed in self.feeds.items():
            if not feed.asked and feed.head > feed.cursor:
                feed.asked = True
                self.send(("get", number, feed.cursor, feed.epoch, self.limit))

    def failed(self, number: int) -> None:
        if number in self.feeds:
            self.feeds[number].asked = False

    def signalled(self, signal: Signal) -> None:
        self._heard(signal.backend, signal.epoch, signal.head)

    def _heard(self, backend: int, epoch: str, head: int) -> None:
        for feed in self.feeds.values():
            if feed.backend == backend:
                # Of another epoch: asking with the old cursor makes the broker say what it is.
                feed.head = max(feed.head, head if epoch == feed.epoch else feed.cursor + 1)
        self.look()

    def sent_inline(self, frame: SendInline) -> None:
        for number, feed in self.feeds.items():
            continues = feed.epoch == frame.epoch and frame.after <= feed.cursor
            if feed.backend == frame.backend and continues:
                self._take(number, feed, frame)
        self._heard(frame.backend, frame.epoch, frame.head)

    def answered(self, answer: Answer) -> None:
        number = answer.subscription
        feed = self.feeds.get(number)
        if feed is None:
            return
        feed.asked = False
        if answer.epoch != feed.epoch:
            self._start(number, answer.backend, answer.epoch, answer.after)
            feed = self.feeds[number]
        if answer.after > feed.cursor:
            self.look()  # to what was asked before it unsubscribed and subscribed again
            return
        promise(len(answer.results) <= self.limit, f"{self.name}: more than asked for")
        promise(answer.upto <= answer.head or not answer.results, f"beyond the head: {answer}")
        if answer.gap is not None and answer.gap.last > feed.cursor:
            self.checker.told_gap(self.name, number, feed.epoch, answer.gap)
            feed.cursor = answer.gap.last
        self._take(number, feed, answer)
        promise(feed.cursor >= answer.upto, f"{self.name}: {answer.upto} told, {feed.cursor} had")
        feed.head = max(feed.head, answer.head)
        self.look()

    def _take(self, number: int, feed: Feed, frame: Answer | SendInline) -> None:
        for result in frame.results:
            if result.position > feed.cursor:
                self.checker.got(self.name, number, feed.epoch, result)
                feed.cursor = result.position
        if self.acks():
            self.acknowledge(number)

    def acknowledge(self, number: int) -> None:
        feed = self.feeds[number]
        self.send(("ack", number, feed.epoch, feed.cursor))
