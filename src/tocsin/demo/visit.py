"""One subscriber of the demo: comes, subscribes, watches results, leaves, comes back.

Built on the client's own connection, so that reconnecting, resuming and acknowledging are what an
application gets. It tells the ledger what it displays; whether that is right is the ledger's
business.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tocsin.client.connection import Connection, Listener, Locate
from tocsin.client.feed import Result
from tocsin.client.http import Token
from tocsin.demo.course import Subscriber
from tocsin.demo.gallery import Gallery
from tocsin.demo.ledger import Ledger
from tocsin.errors import TocsinError
from tocsin.model import Arguments
from tocsin.protocol.client import Welcome

OPEN_LIMIT_S = 60.0
SETTLE_LIMIT_S = 15.0
PREFETCH = 256
RECONNECT_MOST_S = 2.0
KEPT_NO_LONGER = "no longer kept"


class Watch:
    """What all subscribers together have seen: the ledger, and figures for the display."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.online = 0
        self.logins = 0
        self.displayed = 0
        self.subscriptions = 0
        self.on_the_way_ms: list[float] = []  # from a result's making to its display, while online
        self.mishaps: list[str] = []


class Visit(Connection):
    """A connection that takes up everything which the broker's welcome lists.

    A returning subscriber then needs no further call: the broker has already been told by the
    cluster what is theirs.
    """

    def __init__(self, locate: Locate, token: Token, opened: Callable[[Listener], None]) -> None:
        # As in the paper's prototype the broker signals and the subscriber then asks, so that
        # the hit ratio counts everything that is delivered.
        super().__init__(locate, token, inline=False, most_s=RECONNECT_MOST_S)
        self._opened_one = opened
        self.served_by = ""  # the last broker; `broker` is None while the connection is down

    @property
    def failed(self) -> bool:
        """It gave up for good, and a new visit is needed."""
        return self._error is not None

    def healthy(self) -> list[Listener]:
        return [listener for listener in self._listeners.values() if listener.error is None]

    def listener(self, subscription: int) -> Listener | None:
        return self._listeners.get(subscription)

    def _open_again(self, welcome: Welcome) -> None:
        self.served_by = welcome.broker
        ended = []
        for info in welcome.subscriptions:
            if info.subscription not in self._listeners:
                listener = Listener(info.channel, info.arguments, PREFETCH)
                self._listen(listener, info)
                ended.append(listener)
        super()._open_again(welcome)
        for listener in ended:
            self._opened_one(listener)


class Person(Subscriber):
    """Does what the trace says, one thing after the other."""

    def __init__(
        self, name: str, locate: Locate, token: str, watch: Watch, gallery: Gallery
    ) -> None:
        super().__init__()
        self.name = name
        self._locate = locate
        self._token = token
        self._watch = watch
        self._gallery = gallery
        self._visit: Visit | None = None
        self._held: dict[str, int] = {}  # wish → subscription
        self._watching: dict[int, asyncio.Task[None]] = {}

    @property
    def online(self) -> bool:
        return self._visit is not None

    def failed(self, error: Exception) -> None:
        if not isinstance(error, TocsinError):
            raise error
        self._watch.mishaps.append(f"{self.name}: {error}")

    async def login(self) -> None:
        if self._visit is not None:
            if not self._visit.failed:
                return
            await self.leave(settle=False)
        visit = Visit(self._locate, self._token, self._opened)
        self._visit = visit
        try:
            await visit.open(OPEN_LIMIT_S)
        except TocsinError:
            await self._leave(visit)
            raise
        self._watch.online += 1
        self._watch.logins += 1

    async def logout(self) -> None:
        """Leave when every acknowledgement is durable, as an application that is closed does."""
        await self.leave(settle=True)

    async def leave(self, *, settle: bool) -> None:
        visit = self._visit
        if visit is None:
            return
        if settle:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled(visit), SETTLE_LIMIT_S)
        await self._leave(visit)
        self._watch.online -= 1

    async def _settled(self, visit: Visit) -> None:
        visit.hasten()
        while any(not listener.feed.settled for listener in visit.healthy()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def _leave(self, visit: Visit) -> None:
        for task in self._watching.values():
            task.cancel()
        self._watching.clear()
        await visit.close()
        self._visit = None

    async def subscribe_all(self, wishes: list[tuple[str, Arguments]]) -> None:
        await asyncio.gather(*(self.subscribe(channel, given) for channel, given in wishes))

    async def subscribe(self, channel: str, arguments: Arguments) -> None:
        if self._visit is None:
            return
        listener = Listener(channel, arguments, PREFETCH)
        await self._visit.subscribe(listener)
        self._held[_wish(channel, arguments)] = listener.feed.subscription
        self._watch.subscriptions += 1
        self._opened(listener)

    async def unsubscribe(self, channel: str, arguments: Arguments) -> None:
        number = self._held.pop(_wish(channel, arguments), None)
        visit = self._visit
        if number is None or visit is None:
            return
        listener = visit.listener(number)
        watching = self._watching.pop(number, None)
        if watching is not None:
            watching.cancel()
        self._watch.ledger.unsubscribed(number)
        self._watch.subscriptions -= 1
        if listener is not None:
            await visit.unsubscribe(listener)

    def _opened(self, listener: Listener) -> None:
        """A subscription is served: made just now, or resumed."""
        feed, number = listener.feed, listener.feed.subscription
        visit = self._visit
        assert visit is not None
        self._watch.ledger.subscribed(
            number, self.name, visit.served_by, feed.backend, feed.epoch, feed.durable
        )
        task = asyncio.create_task(self._display_all(visit, listener, number))
        self._watching[number] = task

    async def _display_all(self, visit: Visit, listener: Listener, subscription: int) -> None:
        since = time.time()
        feed = listener.feed
        reported = 0
        while listener.error is None:
            for gap in feed.gaps[reported:]:
                if gap.last is not None and gap.reason == KEPT_NO_LONGER:
                    self._watch.ledger.gap(subscription, gap.first, gap.last)
            reported = len(feed.gaps)
            result = visit.take(listener)
            if result is None:
                await listener.changed()
                continue
            self._display(visit, subscription, result, since)
            visit.acknowledge(listener, result)
        self._watch.mishaps.append(f"{self.name}: {listener.error}")

    def _display(self, visit: Visit, subscription: int, result: Result, since: float) -> None:
        now = time.time()
        latency_ms = None
        if result.at >= since:  # it was online when the result was made
            self._watch.on_the_way_ms.append(1000 * (now - result.at))
            reported_at = reported(result.value)
            if reported_at is not None:
                latency_ms = 1000 * (now - reported_at)
        self._watch.displayed += 1
        self._gallery.shown(visit.served_by, self._token, result)
        self._watch.ledger.displayed(
            subscription, result.position, broker=visit.served_by, latency_ms=latency_ms
        )


def reported(value: Any) -> float | None:
    """When the publication behind a result was sent, in seconds since the epoch."""
    text = value.get("reported_at") if isinstance(value, dict) else None
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _wish(channel: str, arguments: Arguments) -> str:
    return f"{channel} {sorted(arguments.items())}"
