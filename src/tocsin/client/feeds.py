"""All feeds of a connection: found by subscription and by backend subscription, and what they have
to send. Sans-I/O.

Only feeds that something happened to are looked at, however many others there are. Gets are due at
once; acknowledgements wait until whoever drives this wants them. Must not know sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tocsin.client.feed import Feed, Result, Wanted
from tocsin.protocol.client import Marker, ResultsFrame, Signal, SubscriptionInfo


class Feeds:
    def __init__(self) -> None:
        self._by_subscription: dict[int, Feed] = {}
        self._by_backend: dict[int, Feed | list[Feed]] = {}  # nearly all have one
        self._looked_at: dict[Feed, None] = {}  # those that may want something
        self._acknowledged: dict[Feed, None] = {}  # those that may have something to acknowledge

    def __len__(self) -> int:
        return len(self._by_subscription)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._by_subscription.values())

    def get(self, subscription: int) -> Feed | None:
        return self._by_subscription.get(subscription)

    def opened(self, feed: Feed, info: SubscriptionInfo) -> None:
        """The broker serves it, for the first time or again."""
        self._forget_backend(feed)
        feed.opened(info)
        self._by_subscription[feed.subscription] = feed
        there = self._by_backend.get(feed.backend)
        if there is None:
            self._by_backend[feed.backend] = feed
        else:
            self._by_backend[feed.backend] = [*_listed(there), feed]
        self._look(feed)
        self._acknowledged[feed] = None  # what was not confirmed is sent again

    def remove(self, subscription: int) -> Feed | None:
        feed = self._by_subscription.pop(subscription, None)
        if feed is not None:
            self._forget_backend(feed)
            self._looked_at.pop(feed, None)
            self._acknowledged.pop(feed, None)
        return feed

    def _forget_backend(self, feed: Feed) -> None:
        rest = [other for other in _listed(self._by_backend.get(feed.backend)) if other is not feed]
        if rest:
            self._by_backend[feed.backend] = rest
        else:
            self._by_backend.pop(feed.backend, None)

    # -- what the broker says ---------------------------------------------------------------------

    def signalled(self, signal: Signal) -> None:
        for feed in _listed(self._by_backend.get(signal.backend)):
            feed.signalled(signal.epoch, signal.head)
            self._look(feed)

    def sent_inline(self, frame: ResultsFrame[Any]) -> Sequence[Feed]:
        """Whose results they are."""
        feeds = _listed(self._by_backend.get(frame.backend))
        for feed in feeds:
            self._arrived(feed, frame)
        return feeds

    def answered(self, feed: Feed, frame: ResultsFrame[Any]) -> None:
        if self._holds(feed):  # else it was given up meanwhile
            self._arrived(feed, frame)

    def failed(self, feed: Feed) -> None:
        """Its get came to nothing: it is wanted again."""
        feed.answer_failed()
        self._look(feed)

    def confirmed(self, subscription: int, epoch: str, position: int) -> Feed | None:
        feed = self._by_subscription.get(subscription)
        if feed is not None:
            feed.confirmed(epoch, position)
        return feed

    def _arrived(self, feed: Feed, frame: ResultsFrame[Any]) -> None:
        feed.arrived(frame)
        self._look(feed)
        if feed.tells_of_gaps:
            self._acknowledged[feed] = None

    # -- what the application does ----------------------------------------------------------------

    def take(self, feed: Feed) -> Result | None:
        result = feed.take()
        self._look(feed)  # there is room for more
        return result

    def acknowledge(self, feed: Feed, result: Result) -> None:
        feed.acknowledge(result)
        self._acknowledged[feed] = None

    # -- what is due ------------------------------------------------------------------------------

    @property
    def wanting(self) -> bool:
        """Whether some may want something that is not asked for yet."""
        return bool(self._looked_at)

    @property
    def acknowledging(self) -> int:
        """How many may have something to acknowledge."""
        return len(self._acknowledged)

    def wanted(self) -> Iterator[tuple[Feed, Wanted]]:
        """The gets to send now. One without room is looked at again when something is taken."""
        looked_at, self._looked_at = self._looked_at, {}
        for feed in looked_at:
            wanted = feed.wanted() if self._holds(feed) else None
            if wanted is not None:
                yield feed, wanted

    def acknowledgements(self) -> list[Marker]:
        """The acknowledgements to send now."""
        acknowledged, self._acknowledged = self._acknowledged, {}
        due = []
        for feed in acknowledged:
            acknowledgement = feed.acknowledgement() if self._holds(feed) else None
            if acknowledgement is not None:
                due.append(Marker(feed.subscription, *acknowledgement))
        return due

    def _holds(self, feed: Feed) -> bool:
        return self._by_subscription.get(feed.subscription) is feed

    def _look(self, feed: Feed) -> None:
        if feed.wants:
            self._looked_at[feed] = None


def _listed(feeds: Feed | list[Feed] | None) -> Sequence[Feed]:
    if feeds is None:
        return ()
    return feeds if isinstance(feeds, list) else (feeds,)
