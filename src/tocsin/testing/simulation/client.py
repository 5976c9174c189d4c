"""A client: the real feeds of its subscriptions, and an application that takes from them, stalls
and acknowledges as it likes. Some gather what they acknowledge, and hear several words in one
frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tocsin.broker.machine.effects import AckedMany, Answer, SendInline, Signal
from tocsin.client.feed import Feed, Wanted
from tocsin.client.feed import Result as Taken
from tocsin.client.feeds import Feeds
from tocsin.model import Result, Subscription
from tocsin.protocol import client as frames
from tocsin.protocol.client import Missing, ResultInfo, ResultsFrame, SubscriptionInfo
from tocsin.testing.simulation.checkers import DeliveryChecker, promise


class SimulatedClient:
    def __init__(
        self,
        name: str,
        inline: bool,
        prefetch: int,
        checker: DeliveryChecker,
        send: Callable[[tuple[Any, ...]], None],  # to the broker, on the present connection
        acks: Callable[[], bool],  # whether it acknowledges now
        gather: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """`gather`: do this in a moment; None: it acknowledges one by one, at once."""
        self.name = name
        self.inline = inline
        self._gather = gather
        self._gathering = False
        self._hearing = False  # more words of the same frame are to come
        self.connection: int | None = None
        self.stalled = False
        self.feeds = Feeds()
        self.asked = 0  # gets so far
        self._store_id: str | None = None
        self._prefetch = prefetch
        self._checker = checker
        self._send = send
        self._acks = acks
        self._gets: dict[int, tuple[int, Feed, Wanted]] = {}  # under way
        self._taken: dict[int, Taken] = {}  # the newest of each subscription

    @property
    def batch(self) -> bool:
        """Whether it takes several frames in one."""
        return self._gather is not None

    @property
    def subscriptions(self) -> list[int]:
        return sorted(feed.subscription for feed in self.feeds)

    # -- frames -----------------------------------------------------------------------------------

    def hear(self, words: Iterable[Callable[[SimulatedClient], None]]) -> None:
        """Several in one frame."""
        self._hearing = True
        for word in words:
            word(self)
        self._hearing = False
        self.go_on()

    def welcomed(self, store_id: str, subscriptions: list[Subscription]) -> None:
        self._gets.clear()
        if self._store_id not in (None, store_id):
            self.restart()  # what it knew is of a store that is no more
        self._store_id = store_id
        listed = {subscription.id for subscription in subscriptions}
        for gone in self.subscriptions:
            if gone not in listed:
                self.forget(gone)
        for subscription in subscriptions:
            self._opened(subscription)
        self.go_on()

    def subscribed(self, subscription: Subscription) -> None:
        self._opened(subscription)
        self.go_on()

    def _opened(self, subscription: Subscription) -> None:
        feed = self.feeds.get(subscription.id) or Feed(self._prefetch)
        epoch = feed.epoch
        self.feeds.opened(feed, _info(subscription))
        if epoch != subscription.backend.epoch:
            self._checker.began(
                self.name, subscription.id, subscription.backend.epoch, subscription.marker
            )

    def forget(self, number: int) -> None:
        self.feeds.remove(number)
        self._taken.pop(number, None)
        self._checker.forgotten(self.name, number)

    def restart(self) -> None:
        """All that it remembered is gone, but for what it acknowledged."""
        for number in self.subscriptions:
            self.forget(number)

    def ended(self, number: int) -> None:
        self._checker.ended(self.name, number)
        if self.feeds.get(number) is not None:
            self.forget(number)

    def confirmed(self, number: int, epoch: str, position: int) -> None:
        self._checker.confirmed(number, epoch, position)
        self.feeds.confirmed(number, epoch, position)

    def all_confirmed(self, acked: AckedMany) -> None:
        for marker in acked.markers:
            self.confirmed(marker.subscription, marker.epoch, marker.position)

    def failed(self, ref: int) -> None:
        _, feed, _ = self._gets.pop(ref, (0, None, None))
        if feed is not None:
            self.feeds.failed(feed)
        self.go_on()

    def signalled(self, signal: Signal) -> None:
        self.feeds.signalled(frames.Signal(signal.backend, signal.epoch, signal.head))
        self.go_on()

    def sent_inline(self, frame: SendInline) -> None:
        results, head = _results(frame.results), frame.head
        self.feeds.sent_inline(
            ResultsFrame(frame.backend, frame.epoch, frame.after, head, head, results)
        )
        self.go_on()

    def answered(self, ref: int, answer: Answer) -> None:
        number, feed, wanted = self._gets.pop(ref, (0, None, None))
        if feed is None or wanted is None or self.feeds.get(number) is not feed:
            return  # given up meanwhile
        promise(len(answer.results) <= wanted.limit, f"{self.name}: more than asked for")
        whence = answer.fetched + answer.from_neighbours + answer.cached
        promise(whence == len(answer.results), f"{self.name}: {whence} counted in {answer}")
        promise(answer.upto <= answer.head or not answer.results, f"beyond the head: {answer}")
        gap = None if answer.gap is None else Missing(answer.gap.first, answer.gap.last)
        known = feed.epoch
        self.feeds.answered(
            feed,
            ResultsFrame(
                answer.backend,
                answer.epoch,
                answer.after,
                answer.upto,
                answer.head,
                _results(answer.results),
                gap,
                subscription=number,
                ref=ref,
            ),
        )
        if known != answer.epoch:
            self._checker.began(self.name, number, answer.epoch, answer.after)
        promise(feed.position >= answer.upto, f"{self.name}: {answer.upto} told and not had")
        self.go_on()

    # -- the application --------------------------------------------------------------------------

    def go_on(self) -> None:
        if self._hearing:
            return
        for feed in list(self.feeds):
            number = feed.subscription
            while not self.stalled and (result := self.feeds.take(feed)) is not None:
                self._checker.got(self.name, number, feed.backend, result)
                self._taken[number] = result
                if self._acks():
                    self.feeds.acknowledge(feed, result)
        self._acknowledge()
        for feed, wanted in self.feeds.wanted():
            self._ask(feed, wanted)

    def acknowledge_all(self) -> None:
        """What it has taken so far."""
        for feed in self.feeds:
            if feed.subscription in self._taken:
                self.feeds.acknowledge(feed, self._taken[feed.subscription])
        self.go_on()

    def _acknowledge(self) -> None:
        if self._gather is None:
            for marker in self.feeds.acknowledgements():
                self._send(("ack", marker.subscription, marker.epoch, marker.position))
        elif self.feeds.acknowledging and not self._gathering:
            self._gathering = True
            self._gather(self._gathered)

    def _gathered(self) -> None:
        self._gathering = False
        if self.connection is None:
            return  # the next welcome has them sent
        markers = self.feeds.acknowledgements()
        if markers:
            self._send(("ack_many", markers))

    def _ask(self, feed: Feed, wanted: Wanted) -> None:
        number = feed.subscription
        self.asked += 1
        self._gets[self.asked] = number, feed, wanted
        self._send(("get", number, self.asked, wanted.after, wanted.epoch, wanted.limit))


def _info(subscription: Subscription) -> SubscriptionInfo:
    there = subscription.backend
    return SubscriptionInfo(
        subscription.id,
        subscription.subscriber,
        there.id,
        there.channel,
        there.arguments,
        there.epoch,
        there.head,
        there.floor,
        subscription.marker,
        subscription.broker,
    )


def _results(results: list[Result]) -> list[ResultInfo[Any]]:
    return [ResultInfo(result.position, result.created_at, result.payload) for result in results]
