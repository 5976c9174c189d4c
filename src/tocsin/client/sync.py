"""`SyncClient`: the same client for applications without an event loop.

The asynchronous client runs in a thread of its own; every call here waits for it there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tocsin.client.beginning import From
from tocsin.client.client import Client, Subscription
from tocsin.client.feed import Gap, Result
from tocsin.client.group import SubscriptionGroup
from tocsin.protocol.publishing import Published, StatementResult

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tocsin-client", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt too: nobody waits for it any more
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSubscription:
    """`for result in subscription`; see `Subscription` for what is acknowledged when."""

    def __init__(self, loop: _Loop, subscription: Subscription) -> None:
        self._loop = loop
        self._subscription = subscription

    @property
    def id(self) -> int:
        return self._subscription.id

    @property
    def channel(self) -> str:
        return self._subscription.channel

    @property
    def gaps(self) -> list[Gap]:
        return self._subscription.gaps

    @property
    def ended(self) -> bool:
        return self._subscription.ended

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        try:
            return self._loop.wait(self._subscription.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def ack(self, result: Result) -> None:
        async def acknowledge() -> None:
            self._subscription.ack(result)

        self._loop.wait(acknowledge())

    def settle(self) -> None:
        self._loop.wait(self._subscription.settle())

    def unsubscribe(self) -> None:
        self._loop.wait(self._subscription.unsubscribe())

    def close(self) -> None:
        self._loop.wait(self._subscription.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._loop.wait(self._subscription.__aexit__(*raised))


class SyncSubscriptionGroup:
    """`for result in group`; see `SubscriptionGroup`."""

    def __init__(self, loop: _Loop, group: SubscriptionGroup) -> None:
        self._loop = loop
        self._group = group

    def __len__(self) -> int:
        return len(self._group)

    def __getitem__(self, number: int) -> SyncSubscription:
        return SyncSubscription(self._loop, self._group[number])

    @property
    def ended(self) -> bool:
        return self._group.ended

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        try:
            return self._loop.wait(self._group.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def ack(self, result: Result) -> None:
        async def acknowledge() -> None:
            self._group.ack(result)

        self._loop.wait(acknowledge())

    def settle(self) -> None:
        self._loop.wait(self._group.settle())

    def unsubscribe(self) -> None:
        self._loop.wait(self._group.unsubscribe())

    def close(self) -> None:
        self._loop.wait(self._group.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._loop.wait(self._group.__aexit__(*raised))


class SyncClient:
    """`Client` without `await`; takes the same options."""

    def __init__(self, coordinator: str | None = None, **options: Any) -> None:
        self._loop = _Loop()

        async def make() -> Client:
            return Client(coordinator, **options)

        try:
            self._client = self._loop.wait(make())
        except BaseException:
            self._loop.stop()
            raise

    @property
    def broker(self) -> str | None:
        return self._client.broker

    def subscribe(self, channel: str, /, *arguments: Any, **named: Any) -> SyncSubscription:
        """`from_` is among what may be named."""
        subscription = self._loop.wait(self._client.subscribe(channel, *arguments, **named))
        return SyncSubscription(self._loop, subscription)

    def subscribe_many(
        self,
        channel: str,
        arguments: Iterable[Mapping[str, Any] | Sequence[Any]],
        *,
        from_: From | None = None,
    ) -> SyncSubscriptionGroup:
        work = self._client.subscribe_many(channel, arguments, from_=from_)
        return SyncSubscriptionGroup(self._loop, self._loop.wait(work))

    def subscribe_to_dataset(
        self, dataset: str, where: str = "", *, from_: From | None = None
    ) -> SyncSubscription:
        work = self._client.subscribe_to_dataset(dataset, where, from_=from_)
        return SyncSubscription(self._loop, self._loop.wait(work))

    def listen(self, channel: str, /, *arguments: Any, **named: Any) -> Iterator[Result]:
        with self.subscribe(channel, *arguments, **named) as subscription:
            yield from subscription

    def sql(self, text: str, key: str | None = None) -> list[StatementResult]:
        return self._loop.wait(self._client.sql(text, key))

    def publish(
        self, dataset: str, records: Mapping[str, Any] | Iterable[Mapping[str, Any]]
    ) -> Published:
        return self._loop.wait(self._client.publish(dataset, records))

    def upload(
        self, source: str | Path | bytes, type: str | None = None, name: str | None = None
    ) -> dict[str, Any]:
        return self._loop.wait(self._client.upload(source, type, name))

    def attachment(self, result: Result, field: str) -> bytes:
        """The whole of it; `Client` streams."""
        return self._loop.wait(self._client.attachment(result, field).read())

    def publish_file(self, dataset: str, path: str | Path) -> Published:
        return self._loop.wait(self._client.publish_file(dataset, path))

    def close(self) -> None:
        self._loop.wait(self._client.close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
