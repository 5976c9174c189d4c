"""Many subscriptions of one client, iterated as one. Must not know sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tocsin.client.connection import Listener
from tocsin.client.feed import Result
from tocsin.errors import TocsinError
from tocsin.model import Beginning

if TYPE_CHECKING:
    from tocsin.client.client import Subscription

SETTLE_S = 5.0


class GroupListener(Listener):
    """A listener whose changes are told to the group that it belongs to."""

    __slots__ = ("_notify",)

    def __init__(
        self,
        channel: str,
        arguments: dict[str, Any] | list[Any],
        prefetch: int,
        beginning: Beginning | None,
        notify: Callable[[GroupListener], None],
    ) -> None:
        super().__init__(channel, arguments, prefetch, beginning)
        self._notify = notify

    def wake(self) -> None:
        super().wake()
        self._notify(self)


class Ready:
    """The listeners of a group that may have something, each once."""

    def __init__(self) -> None:
        self._listeners: deque[GroupListener] = deque()
        self._known: set[int] = set()
        self._filled = asyncio.Event()

    def put(self, listener: GroupListener) -> None:
        if id(listener) not in self._known:
            self._known.add(id(listener))
            self._listeners.append(listener)
        self._filled.set()

    def take(self) -> GroupListener | None:
        if not self._listeners:
            return None
        listener = self._listeners.popleft()
        self._known.discard(id(listener))
        return listener

    async def wait(self) -> None:
        self._filled.clear()
        await self._filled.wait()

    def end(self) -> None:
        """Whoever waits looks whether there is anything to wait for."""
        self._filled.set()


class SubscriptionGroup:
    """The results of many subscriptions: `async for result in group`. Those of one subscription
    come in order, each once; `result.subscription` says whose it is, and `group[number]` is that
    `Subscription`.

    Asking for the next result acknowledges the one before (with `ack="auto"`), and so does leaving
    the `async with` block without an exception. A subscription that somebody ends is over; when all
    are, so is the iteration.
    """

    def __init__(self, ready: Ready, subscriptions: Iterable[Subscription], auto: bool) -> None:
        self._subscriptions = {member.id: member for member in subscriptions}
        self._ready = ready
        self._auto = auto
        self._last: Result | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __getitem__(self, number: int) -> Subscription:
        return self._subscriptions[number]

    def __iter__(self) -> Iterator[Subscription]:
        """The subscriptions themselves, in the order in which they were asked for."""
        return iter(self._subscriptions.values())

    @property
    def ended(self) -> bool:
        """Whether all of them are over for good."""
        return all(subscription.ended for subscription in self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        self._acknowledge_last()
        while not self._closed:
            listener = self._ready.take()
            if listener is None:
                if self.ended:
                    break
                await self._ready.wait()
                continue
            subscription = self._subscriptions.get(listener.feed.subscription)
            if subscription is None:
                continue
            result = subscription.take()
            if result is not None:
                self._ready.put(listener)  # at the end: others have their turn
                self._last = result
                return result
            if listener.error is not None and not listener.ended:
                raise listener.error
        raise StopAsyncIteration

    def ack(self, result: Result) -> None:
        """Acknowledge this result and all before it of the same subscription."""
        self._subscriptions[result.subscription].ack(result)

    async def settle(self) -> None:
        """Wait until every acknowledgement so far is durable."""
        for subscription in self:
            await subscription.settle()

    async def unsubscribe(self) -> None:
        """End all of them for good."""
        await asyncio.gather(*(subscription.unsubscribe() for subscription in self))
        self._end()

    async def close(self) -> None:
        """Stop receiving; the subscriptions live on."""
        with contextlib.suppress(TimeoutError, TocsinError):
            await asyncio.wait_for(self.settle(), SETTLE_S)
        for subscription in self:
            subscription.forget()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._closed:
            return
        if kind is None:
            self._acknowledge_last()
        await self.close()

    def _acknowledge_last(self) -> None:
        if self._auto and self._last is not None:
            self.ack(self._last)
        self._last = None

    def _end(self) -> None:
        self._closed = True
        self._ready.end()
