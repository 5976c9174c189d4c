"""Who subscribes to what, and at which broker: the operations that statements and routes call.

The store keeps subscriptions; this module binds arguments, chooses where a new subscription begins,
and tells deliveries, Spark and brokers what has changed. Must not know HTTP or SQL statements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from tocsin.cluster.deliveries import Deliveries
from tocsin.cluster.log_positions import counts_from
from tocsin.cluster.notices import Notifier
from tocsin.cluster.routing import Routing
from tocsin.model import Arguments, Beginning, Channel, Dataset, Subscription
from tocsin.spark.channels import mask_of, settle
from tocsin.spark.engine import Engine
from tocsin.sql import bind_arguments, checked_beginning
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store


class Subscriptions:
    """Frontend subscriptions of one data cluster. `engine` gives Spark, if it is up."""

    def __init__(
        self,
        store: Store,
        log: PublicationLog,
        routing: Routing,
        deliveries: Deliveries,
        notifier: Notifier,
        engine: Callable[[], Engine | None],
    ) -> None:
        self._store = store
        self._log = log
        self._routing = routing
        self._deliveries = deliveries
        self._notifier = notifier
        self._engine = engine

    async def subscribe(
        self,
        subscriber: str,
        channel_name: str,
        given: dict[str, Any] | list[Any],
        broker: str | None,
        beginning: Beginning | None = None,
    ) -> Subscription:
        """A repeat changes nothing; only a new subscription begins where `beginning` says."""
        if beginning is not None:
            checked_beginning(beginning)
        dataset = await asyncio.to_thread(self._routing.dataset, channel_name)
        channel = await asyncio.to_thread(self._store.catalog.channel, channel_name)
        if dataset is not None:
            arguments = self._routing.bind(channel, dataset, given)
        else:
            arguments = settle(channel, bind_arguments(channel, given))
            await asyncio.to_thread(self._check_arguments, channel, arguments)
        subscription = await asyncio.to_thread(
            self._subscribe, subscriber, channel, dataset, arguments, broker, beginning
        )
        await asyncio.to_thread(self._deliveries.subscribed, subscription)
        engine = self._engine()
        if engine is not None:
            engine.subscribed(channel_name)
        self._notifier.wake()
        return subscription

    def _check_arguments(self, channel: Channel, arguments: Arguments) -> None:
        """Who resumes while Spark starts does not wait for it; nor who asks what others ask."""
        engine = self._engine()
        if engine is None or self._store.subscriptions.knows(channel.name, arguments):
            return
        mask = mask_of(arguments)
        if mask:
            engine.check_open(channel.name, mask)
        engine.check_arguments(channel.name, arguments)

    def _subscribe(
        self,
        subscriber: str,
        channel: Channel,
        dataset: Dataset | None,
        arguments: Arguments,
        broker: str | None,
        beginning: Beginning | None,
    ) -> Subscription:
        stored, now = self._store.subscriptions, time.time()
        since = counts_from(self._log, channel)
        if dataset is not None:
            marker: int | None = self._routing.marker(dataset, arguments["where"], beginning, now)
        elif beginning is not None:
            marker = stored.marker_of(channel.name, arguments, beginning, now)
        else:
            marker = None
        subscription, _ = stored.subscribe(
            subscriber, channel.name, arguments, broker, marker, since
        )
        return subscription

    async def unsubscribe(self, number: int, subscriber: str | None) -> Subscription:
        ended = await asyncio.to_thread(self._store.subscriptions.unsubscribe, number, subscriber)
        self._deliveries.unsubscribed(ended)
        self._notifier.wake()
        return ended

    async def move(self, number: int, broker: str) -> Subscription:
        moved = await asyncio.to_thread(self._store.subscriptions.move, number, broker)
        self._notifier.wake()
        return moved

    async def attach(self, subscriber: str, broker: str) -> Sequence[Subscription]:
        """The subscriber is at `broker` now: everything of theirs is served from there."""
        attached = await asyncio.to_thread(self._store.subscriptions.attach, subscriber, broker)
        self._notifier.wake()
        return attached

    async def of_subscriber(self, subscriber: str) -> Sequence[Subscription]:
        return await asyncio.to_thread(self._store.subscriptions.of_subscriber, subscriber)
