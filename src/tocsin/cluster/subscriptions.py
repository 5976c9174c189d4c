"""Who subscribes to what, and at which broker: the operations that statements and routes call.

The store keeps subscriptions; this module binds arguments, chooses where a new subscription begins,
and tells deliveries, Spark and brokers what has changed. Must not know HTTP or SQL statements.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog

from tocsin.cluster.bound import BoundSubscriptions, claims_of
from tocsin.cluster.deliveries import Deliveries
from tocsin.cluster.log_positions import counts_from
from tocsin.cluster.notices import Notifier
from tocsin.cluster.permissions import Permissions, credentials_of
from tocsin.cluster.routing import Routing
from tocsin.errors import Forbidden, InvalidInput, NotFound, QuotaExceeded
from tocsin.model import Arguments, Beginning, Channel, Dataset, Subscription
from tocsin.service.quotas import refusal
from tocsin.service.tokens import Identity
from tocsin.spark.channels import mask_of, settle
from tocsin.spark.engine import Engine
from tocsin.sql import Claims, bind_arguments, checked_beginning
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

log = structlog.get_logger()

MOST_ARGUMENTS_BYTES = 64 * 1024
"""They lie in memory for as long as somebody subscribes, here, in Spark and at brokers."""


def _check_size(arguments: dict[str, Any] | list[Any]) -> None:
    size_bytes = len(msgspec.json.encode(arguments))
    if size_bytes > MOST_ARGUMENTS_BYTES:
        raise InvalidInput(
            f"the arguments have {size_bytes} bytes, where {MOST_ARGUMENTS_BYTES} are taken",
            field="arguments",
            hint="ask for less in one subscription, and make several",
        )


class Subscriptions:
    """Frontend subscriptions of one data cluster. `engine` gives Spark, if it is up."""

    def __init__(
        self,
        store: Store,
        log: PublicationLog,
        routing: Routing,
        deliveries: Deliveries,
        notifier: Notifier,
        permissions: Permissions,
        engine: Callable[[], Engine | None],
    ) -> None:
        self._store = store
        self._log = log
        self._routing = routing
        self._deliveries = deliveries
        self._notifier = notifier
        self._permissions = permissions
        self._engine = engine
        self._bound = BoundSubscriptions(store, routing)

    async def subscribe(
        self,
        subscriber: str,
        channel_name: str,
        given: dict[str, Any] | list[Any],
        broker: str | None,
        beginning: Beginning | None = None,
        *,
        asker: Identity | None = None,
    ) -> Subscription:
        """Of one `wish`."""
        wish = await self.wish(subscriber, channel_name, given, broker, beginning, asker=asker)
        return (await self.subscribe_all([wish], asker))[0]

    async def wish(
        self,
        subscriber: str,
        channel_name: str,
        given: dict[str, Any] | list[Any],
        broker: str | None,
        beginning: Beginning | None = None,
        *,
        asker: Identity | None = None,
    ) -> Wish:
        """What somebody asks for, if it can be had. A repeat changes nothing; only a new
        subscription begins where `beginning` says. `asker` is whose rights decide, and whose claims
        bind if the token is the subscriber's own; None: a broker does not say."""
        self._permissions.require_subscribe(asker, channel_name)
        if beginning is not None:
            checked_beginning(beginning)
        _check_size(given)
        dataset = await asyncio.to_thread(self._routing.dataset, channel_name)
        channel = await asyncio.to_thread(self._store.catalog.channel, channel_name)
        claims = claims_of(asker, subscriber)
        if dataset is not None:
            arguments = await asyncio.to_thread(self._routing.bind, channel, dataset, given, claims)
        else:
            arguments = settle(channel, bind_arguments(channel, given, claims))
            await asyncio.to_thread(self._check_arguments, channel, arguments)
        if channel.bound or (dataset is not None and dataset.bound):
            known = await asyncio.to_thread(self._store.subscriptions.of_subscriber, subscriber)
            await asyncio.to_thread(self._end_unfit, subscriber, known, claims)
        marker, since = await asyncio.to_thread(
            self._beginning, channel, dataset, arguments, beginning
        )
        return Wish(subscriber, channel.name, arguments, broker, marker, since)

    async def subscribe_all(
        self, wishes: Sequence[Wish], asker: Identity | None
    ) -> list[Subscription]:
        """All of them, or, where a quota has not room for all, none."""
        subscriptions = await asyncio.to_thread(self._subscribe_all, wishes, asker)
        engine = self._engine()
        if engine is not None:
            for channel in dict.fromkeys(wish.channel for wish in wishes):
                engine.subscribed(channel)
        self._notifier.wake()
        return subscriptions

    def _check_arguments(self, channel: Channel, arguments: Arguments) -> None:
        """Who resumes while Spark starts does not wait for it; nor who asks what others ask."""
        engine = self._engine()
        if engine is None or self._store.subscriptions.knows(channel.name, arguments):
            return
        mask = mask_of(arguments)
        if mask:
            engine.check_open(channel.name, mask)
        engine.check_arguments(channel.name, arguments)

    def _beginning(
        self,
        channel: Channel,
        dataset: Dataset | None,
        arguments: Arguments,
        beginning: Beginning | None,
    ) -> tuple[int | None, int]:
        """Marker of a new subscription, and from where a new backend subscription counts."""
        stored, now = self._store.subscriptions, self._store.now()
        since = counts_from(self._log.ends(), channel)
        if dataset is not None:
            return self._routing.marker(dataset, arguments["where"], beginning, now), since
        if beginning is not None:
            return stored.marker_of(channel.name, arguments, beginning, now), since
        return None, since

    def _subscribe_all(self, wishes: Sequence[Wish], asker: Identity | None) -> list[Subscription]:
        try:
            made = self._store.subscriptions.subscribe_all(wishes, credentials_of(asker))
        except QuotaExceeded as error:
            raise refusal(error) from None
        subscriptions = [subscription for subscription, _ in made]
        for subscription in subscriptions:
            self._deliveries.subscribed(subscription)
        return subscriptions

    async def unsubscribe(self, number: int, subscriber: str | None) -> Subscription:
        ended = await asyncio.to_thread(self._store.subscriptions.unsubscribe, number, subscriber)
        self.ended([ended])
        return ended

    def ended(self, subscriptions: Sequence[Subscription]) -> None:
        """These are no longer in the store: whoever serves them must hear of it."""
        for subscription in subscriptions:
            self._deliveries.unsubscribed(subscription)
        if subscriptions:
            self._notifier.wake()

    async def move(self, number: int, broker: str) -> Subscription:
        moved = await asyncio.to_thread(self._store.subscriptions.move, number, broker)
        self._notifier.wake()
        return moved

    async def attach(
        self, subscriber: str, broker: str, asker: Identity | None = None
    ) -> Sequence[Subscription]:
        """The subscriber is at `broker` now: everything of theirs that the asker may have is served
        from there, and nothing else anywhere. What is bound to other values than the asker's token
        says has ended."""
        if asker is None and self._permissions.in_force:
            raise Forbidden(
                "grants decide here, and the broker does not say who asks",
                field="role",
                hint="upgrade the broker",
            )
        attached = await asyncio.to_thread(self._attach, subscriber, broker, asker)
        self._notifier.wake()
        return attached

    def _attach(
        self, subscriber: str, broker: str, asker: Identity | None
    ) -> Sequence[Subscription]:
        attached = self._store.subscriptions.attach(subscriber, broker, credentials_of(asker))
        ended = self._end_unfit(subscriber, attached, claims_of(asker, subscriber))
        return [subscription for subscription in attached if subscription.id not in ended]

    def _end_unfit(
        self, subscriber: str, subscriptions: Sequence[Subscription], claims: Claims | None
    ) -> set[int]:
        """End those that are bound to other values than the claims say; their numbers."""
        unfit = self._bound.unfit(subscriber, subscriptions, claims)
        for subscription in unfit:
            log.info("bound to other claims than the token says: ended", number=subscription.id)
            with contextlib.suppress(NotFound):  # it has ended meanwhile
                ended = self._store.subscriptions.unsubscribe(subscription.id, subscriber)
                self._deliveries.unsubscribed(ended)
        return {subscription.id for subscription in unfit}

    def claims(self, channels: set[str]) -> dict[str, tuple[str, ...]]:
        """What subscriptions to each of these channels are bound to. May wait for the store."""
        return {name: self._bound.claims(name) for name in channels}

    async def of_subscriber(self, subscriber: str) -> Sequence[Subscription]:
        return await asyncio.to_thread(self._store.subscriptions.of_subscriber, subscriber)
