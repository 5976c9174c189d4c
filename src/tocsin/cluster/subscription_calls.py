"""What the cluster does for the routes by which people subscribe, and how these are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.records import subscription_info
from tocsin.cluster.subscriptions import Wanted, placed
from tocsin.errors import Forbidden, NotFound
from tocsin.intake.large_bodies import is_small
from tocsin.model import Channel, Subscription, filtered_dataset
from tocsin.protocol.client import SubscriptionInfo, SubscriptionList
from tocsin.protocol.cluster import SubscriptionRequest
from tocsin.protocol.health import Done
from tocsin.protocol.queries import SubscriberQuery
from tocsin.service.on_behalf import on_behalf_of
from tocsin.service.tokens import Identity
from tocsin.service.web import Call, decoded


class DescribedSubscriptions:
    """Subscriptions as the protocol carries them."""

    def __init__(self, cluster: Cluster) -> None:
        self._store = cluster.store
        self._routing = cluster.routing
        self._subscriptions = cluster.subscriptions

    async def infos(self, subscriptions: Sequence[Subscription]) -> list[SubscriptionInfo]:
        names = {subscription.backend.channel for subscription in subscriptions}
        if len(subscriptions) == 1 and all(map(self._is_at_hand, names)):
            return self._infos(subscriptions, names)
        return await asyncio.to_thread(self._infos, subscriptions, names)

    def _is_at_hand(self, channel: str) -> bool:
        """Whether nothing has to be waited for to describe a subscription to it."""
        return filtered_dataset(channel) is None and self._store.catalog.knows_channel(channel)

    def _infos(
        self, subscriptions: Sequence[Subscription], names: set[str]
    ) -> list[SubscriptionInfo]:
        if any(filtered_dataset(name) is not None for name in names):
            subscriptions = self._routing.present(subscriptions)
        channels, claims = self._channels(names), self._subscriptions.claims(names)
        infos = []
        for subscription in subscriptions:
            name = subscription.backend.channel
            infos.append(subscription_info(subscription, channels.get(name), claims[name]))
        return infos

    def _channels(self, names: set[str]) -> dict[str, Channel]:
        channels = {}
        for name in names:
            with contextlib.suppress(NotFound):  # dropped meanwhile
                channels[name] = self._store.catalog.channel(name)
        return channels


class SubscriptionCalls:
    """One method per route."""

    def __init__(self, cluster: Cluster) -> None:
        self._store = cluster.store
        self._subscriptions = cluster.subscriptions
        self._large = cluster.large_bodies
        self._described = DescribedSubscriptions(cluster)

    async def subscriptions(self, call: Call) -> Any:
        subscriber = _whose(call, call.query(SubscriberQuery).subscriber)
        subscriptions = await self._subscriptions.of_subscriber(subscriber)
        broker = call.identity.broker
        if broker is not None and subscriber != broker:
            subscriptions = [
                subscription for subscription in subscriptions if subscription.broker == broker
            ]
        return SubscriptionList(await self._described.infos(subscriptions))

    async def subscribe(self, call: Call) -> Any:
        """One subscription, or a list of them: all are made, or none."""
        sender = call.identity.subject
        with self._large.taking(sender) as taking:
            body = await call.bytes(taking.more)
            reading = partial(decoded, body, SubscriptionRequest | list[SubscriptionRequest])
            given = reading() if is_small(body) else await self._large.run(sender, reading)
            if isinstance(given, list):
                return await self._subscribe_all(call, given)
        asker = await on_behalf_of(call, given.subscriber)
        wanted = _wanted(call, given, asker)
        (info,) = await self._described.infos([await self._subscriptions.subscribe(wanted, asker)])
        return info

    async def _subscribe_all(
        self, call: Call, requests: list[SubscriptionRequest]
    ) -> list[SubscriptionInfo]:
        askers: dict[str | None, Identity | None] = {}
        wanted = []
        for place, request in enumerate(requests):
            with placed(place):
                if request.subscriber not in askers:
                    askers[request.subscriber] = await on_behalf_of(call, request.subscriber)
                wanted.append(_wanted(call, request, askers[request.subscriber]))
        # Whoever calls, it is the same for all of them: the caller, or whom their token names.
        asker = next(iter(askers.values()), None)
        wishes = await self._subscriptions.wishes(wanted, asker)
        made = await self._subscriptions.subscribe_all(wishes, asker)
        return await self._described.infos(made)

    async def unsubscribe(self, call: Call) -> Any:
        subscriber = _whose(call, call.query(SubscriberQuery).subscriber)
        await self._require_served(call, call.path["number"])
        await self._subscriptions.unsubscribe(call.path["number"], subscriber)
        return Done()

    async def _require_served(self, call: Call, number: int) -> None:
        """A subscription at another broker looks to a broker like one that does not exist."""
        broker = call.identity.broker
        if broker is None:
            return
        subscription = await asyncio.to_thread(self._store.subscriptions.get, number)
        if broker not in (subscription.broker, subscription.subscriber):
            raise NotFound(f"there is no subscription {number}", field="subscription")


def _wanted(call: Call, request: SubscriptionRequest, asker: Identity | None) -> Wanted:
    named = request.subscriber or (None if asker is None else asker.subject)
    if request.broker is not None:
        call.identity.require_broker(request.broker)
    beginning = None if request.beginning is UNSET else request.beginning
    subscriber = _whose(call, named)
    return Wanted(subscriber, request.channel, request.arguments, request.broker, beginning)


def _whose(call: Call, named: str | UnsetType | None) -> str:
    """Brokers and admins act for others; everyone else for themselves."""
    if named is None or named is UNSET or named == call.identity.subject:
        return call.identity.subject
    if not call.identity.scopes & {"broker", "admin"}:
        raise Forbidden("this token speaks for its own subject only", field="subscriber")
    return named
