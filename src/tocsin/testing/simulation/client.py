"""A client: the real feeds of its subscriptions, and an application that takes from them, stalls
and acknowledges as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.broker.machine.effects import Answer, SendInline, Signal
from tocsin.client.feed import Feed, Wanted
from tocsin.client.feed import Result as Taken
from tocsin.model import Result, Subscription
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
    ) -> None:
        self.name = name
        self.inline = inline
        self.connection: int | None = None
        self.stalled = False
        self.feeds: dict[int, Feed] = {}
        self.asked = 0  # gets so far
        self._store_id: str | None = None
        self._prefetch = prefetch
        self._checker = checker
        self._send = send
        self._acks = acks
        self._gets: dict[int, tuple[int, Feed, Wanted]] = {}  # under way
        self._taken: dict[int, Taken] = {}  # the newest of each subscription

    def backend(self, number: int) -> int:
        info = self.feeds[number].info
        assert info is not None
        return info.backend

    # -- frames -----------------------------------------------------------------------------------

    def welcomed(self, store_id: str, subscriptions: list[Subscription]) -> None:
        self._gets.clear()
        if self._store_id not in (None, store_id):
            self.restart()  # what it knew is of a store that is no more
        self._store_id = store_id
        listed = {subscription.id for subscription in subscriptions}
        for gone in [number for number in self.feeds if number not in listed]:
            self.forget(gone)
        for subscription in subscriptions:
            self._opened(subscription)
        self.go_on()

    def subscribed(self, subscription: Subscription) -> None:
        self._opened(subscription)
        self.go_on()

    def _opened(self, subscription: Subscription) -> None:
        feed = self.feeds.setdefault(subscription.id, Feed(self._prefetch))
        known = feed.info
        feed.opened(_info(subscription))
        if known is None or known.epoch != subscription.backend.epoch:
            self._checker.began(
                self.name, subscription.id, subscription.backend.epoch, subscription.marker
            )

    def forget(self, number: int) -> None:
        del self.feeds[number]
        self._taken.pop(number, None)
        self._checker.forgotten(self.name, number)

    def restart(self) -> None:
        """All that it remembered is gone, but for what it acknowledged."""
        for number in list(self.feeds):
            self.forget(number)

    def ended(self, number: int) -> None:
        self._checker.ended(self.name, number)
        if number in self.feeds:
            self.forget(number)

    def confirmed(self, number: int, epoch: str, position: int) -> None:
        if number in self.feeds:
            self.feeds[number].confirmed(epoch, position)

    def failed(self, ref: int) -> None:
        number, feed, _ = self._gets.pop(ref, (0, None, None))
        if feed is not None and self.feeds.get(number) is feed:
            feed.answer_failed()
        self.go_on()

    def signalled(self, signal: Signal) -> None:
        for feed in self._of(signal.backend):
            feed.signalled(signal.epoch, signal.head)
        self.go_on()

    def sent_inline(self, frame: SendInline) -> None:
        for feed in self._of(frame.backend):
            feed.arrived(
                ResultsFrame(
                    frame.backend,
                    frame.epoch,
                    frame.after,
                    frame.head,
                    frame.head,
                    _results(frame.results),
                )
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
        known = feed.info
        feed.arrived(
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
            )
        )
        if known is not None and known.epoch != answer.epoch:
            self._checker.began(self.name, number, answer.epoch, answer.after)
        promise(feed.position >= answer.upto, f"{self.name}: {answer.upto} told and not had")
        self.go_on()

    def _of(self, backend: int) -> list[Feed]:
        return [feed for number, feed in self.feeds.items() if self.backend(number) == backend]

    # -- the application --------------------------------------------------------------------------

    def go_on(self) -> None:
        for number, feed in self.feeds.items():
            while not self.stalled and (result := feed.take()) is not None:
                self._checker.got(self.name, number, self.backend(number), result)
                self._taken[number] = result
                if self._acks():
                    feed.acknowledge(result)
            acknowledgement = feed.acknowledgement()
            if acknowledgement is not None:
                self._send(("ack", number, *acknowledgement))
            self._ask(number, feed)

    def acknowledge_all(self) -> None:
        """What it has taken so far."""
        for number, feed in self.feeds.items():
            if number in self._taken:
                feed.acknowledge(self._taken[number])
        self.go_on()

    def _ask(self, number: int, feed: Feed) -> None:
        wanted = feed.wanted()
        if wanted is not None:
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
