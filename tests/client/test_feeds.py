"""Many feeds of one connection: what is looked at, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from client.test_feed import frame, info
from tocsin.client.feed import Feed, Result, Wanted
from tocsin.client.feeds import Feeds
from tocsin.protocol.client import Marker, Signal

EPOCH = "e1"


def open_feeds(*numbers: int, prefetch: int = 10, **changes: Any) -> Feeds:
    """Subscription n is of backend subscription n + 100."""
    feeds = Feeds()
    for number in numbers:
        known = info(subscription=number, backend=number + 100, **changes)
        feeds.opened(Feed(prefetch), known)
    return feeds


def the(feeds: Feeds, number: int) -> Feed:
    feed = feeds.get(number)
    assert feed is not None
    return feed


def drain(feeds: Feeds, number: int) -> list[Result]:
    taken = []
    while (result := feeds.take(the(feeds, number))) is not None:
        taken.append(result)
    return taken


def wanted(feeds: Feeds) -> list[tuple[int, int]]:
    return [(feed.subscription, wanted.after) for feed, wanted in feeds.wanted()]


def test_only_the_feed_that_was_signalled_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = open_feeds(1, 2, 3)
    looked_at = []
    ask = Feed.wanted

    def look(feed: Feed) -> Wanted | None:
        looked_at.append(feed)
        return ask(feed)

    monkeypatch.setattr(Feed, "wanted", look)
    feeds.signalled(Signal(102, EPOCH, 5))
    assert wanted(feeds) == [(2, 0)]
    assert looked_at == [the(feeds, 2)]


def test_what_came_inline_without_room_is_asked_for_once_there_is_room() -> None:
    feeds = open_feeds(1, prefetch=2)
    assert feeds.sent_inline(frame(0, 3, 3, asked=False, backend=101)) == (the(feeds, 1),)
    assert wanted(feeds) == []
    drain(feeds, 1)
    assert wanted(feeds) == [(1, 2)]


def test_a_get_that_came_to_nothing_is_wanted_again() -> None:
    feeds = open_feeds(1, head=3)
    assert wanted(feeds) == [(1, 0)]
    assert not feeds.wanting
    feeds.failed(the(feeds, 1))
    assert wanted(feeds) == [(1, 0)]


def test_acknowledgements_of_many_are_gathered_and_only_the_newest_of_each() -> None:
    feeds = open_feeds(1, 2, 3)
    for backend in (101, 103):
        feeds.sent_inline(frame(0, 2, 2, asked=False, backend=backend))
    feeds.acknowledgements()
    for number in (3, 1):
        for result in drain(feeds, number):
            feeds.acknowledge(the(feeds, number), result)
    assert feeds.acknowledging == 2
    assert feeds.acknowledgements() == [Marker(3, EPOCH, 2), Marker(1, EPOCH, 2)]
    assert feeds.acknowledgements() == []


def test_what_was_not_confirmed_is_acknowledged_again_after_a_reconnection() -> None:
    feeds = open_feeds(1, 2, head=2)
    for number in (1, 2):
        feeds.sent_inline(frame(0, 2, 2, asked=False, backend=number + 100))
        feeds.acknowledge(the(feeds, number), drain(feeds, number)[-1])
    feeds.acknowledgements()
    feeds.confirmed(2, EPOCH, 2)
    for number in (1, 2):
        feeds.opened(the(feeds, number), info(subscription=number, backend=number + 100, head=2))
    assert feeds.acknowledgements() == [Marker(1, EPOCH, 2)]
    assert feeds.sent_inline(frame(2, 3, 3, asked=False, backend=101)) == (the(feeds, 1),)


def test_a_feed_that_was_removed_asks_for_nothing_and_hears_nothing() -> None:
    feeds = open_feeds(1, 2, head=3)
    gone = the(feeds, 1)
    feeds.remove(1)
    assert feeds.sent_inline(frame(0, 1, 1, asked=False, backend=101)) == ()
    feeds.answered(gone, frame(0, 3, 3))
    feeds.failed(gone)
    assert gone.buffered == 0
    assert wanted(feeds) == [(2, 0)]
    assert [feed.subscription for feed in feeds] == [2]


def test_a_gap_that_nobody_takes_is_acknowledged_by_itself() -> None:
    feeds = open_feeds(1)
    feeds.acknowledgements()
    lost = frame(0, 1, 1, asked=False, backend=101)
    lost.results[0] = type(lost.results[0])(1, 0.0, {"_gap": {"cause": "no such index"}})
    feeds.sent_inline(lost)
    assert feeds.acknowledgements() == [Marker(1, EPOCH, 1)]
