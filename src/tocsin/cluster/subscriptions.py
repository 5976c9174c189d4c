"""Who subscribes to what, and at which broker: the operations that statements and routes call.

The store keeps subscriptions; this module binds arguments, chooses where a new subscription begins,
and tells deliveries, Spark and brokers what has changed. Must not know HTTP or SQL statements.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import structlog

from tocsin.cluster.bound import BoundSubscriptions, claims_of
from tocsin.cluster.deliveries import Deliveries
from tocsin.cluster.gathering import Gathering
from tocsin.cluster.log_positions import counts_from
from tocsin.cluster.notices import Notifier
from tocsin.cluster.permissions import Permissions, credentials_of
from tocsin.cluster.routing import Routing
from tocsin.errors import Forbidden, InvalidInput, NotFound, QuotaExceeded, TocsinError, TooLarge
from tocsin.model import (
    Arguments,
    Beginning,
    Channel,
    Dataset,
    Subscription,
    filtered_dataset,
)
from tocsin.service.quotas import refusal
from tocsin.service.tokens import Identity
from tocsin.spark.channels import Mask, mask_of, settle
from tocsin.spark.engine import Engine
from tocsin.sql import Claims, bind_arguments, checked_beginning
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Asked, Wish

log = structlog.get_logger()

MOST_ARGUMENTS_BYTES = 64 * 1024
"""They lie in memory for as long as somebody subscribes, here, in Spark and at brokers."""

MOST_AT_ONCE = 10_000
"""All of them are made in one transaction, for whose end others wait."""


def _check_size(arguments: dict[str, Any] | list[Any]) -> None:
    size_bytes = len(msgspec.json.encode(arguments))
    if size_bytes > MOST_ARGUMENTS_BYTES:
        raise InvalidInput(
            f"the arguments have {size_bytes} bytes, where {MOST_ARGUMENTS_BYTES} are taken",
            field="arguments",
            hint="ask for less in one subscription, and make several",
        )


class Wanted(NamedTuple):
    """A subscription that is asked for, in its subscriber's words."""

    subscriber: str
    channel: str
    arguments: dict[str, Any] | list[Any]
    broker: str | None = None
    beginning: Beginning | None = None


@contextlib.contextmanager
def placed(place: int) -> Iterator[None]:
    """An error says which of several things it is about."""
    try:
        yield
    except TocsinError as error:
        error.index = place
        raise


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
        self._gathering = Gathering(store.subscriptions, self._made, self._tell)

    async def subscribe(self, wanted: Wanted, asker: Identity | None = None) -> Subscription:
        """What `wishes` and `subscribe_all` do, for one."""
        wish = self._at_hand(wanted, asker)
        if wish is None:
            wish = await asyncio.to_thread(self._wish, wanted, asker)
        return (await self.subscribe_all([wish], asker))[0]

    def _wish(self, wanted: Wanted, asker: Identity | None) -> Wish:
        try:
            (wish,) = self._wishes([wanted], asker)
        except TocsinError as error:
            error.index = None
            raise
        return wish

    async def wishes(self, wanted: Sequence[Wanted], asker: Identity | None = None) -> list[Wish]:
        """What somebody asks for, if all of it can be had; else the error says by its `index`
        which of it cannot. A repeat changes nothing; only a new subscription begins where it says.
        `asker` is whose rights decide, and whose claims bind if the token is the subscriber's own;
        None: a broker does not say."""
        if len(wanted) > MOST_AT_ONCE:
            raise TooLarge(
                f"these are {len(wanted)} subscriptions, where {MOST_AT_ONCE} are made in one step",
                field="subscriptions",
                hint="ask in several requests",
            )
        return await asyncio.to_thread(self._wishes, wanted, asker)

    async def subscribe_all(
        self, wishes: Sequence[Wish], asker: Identity | None
    ) -> list[Subscription]:
        """All of them, or, where a quota has not room for all, none."""
        try:
            return await self._gathering.subscribe(Asked(wishes, credentials_of(asker)))
        except QuotaExceeded as error:
            raise refusal(error) from None

    def _made(self, subscriptions: Sequence[Subscription]) -> None:
        for subscription in subscriptions:
            self._deliveries.subscribed(subscription)

    def _tell(self, subscriptions: Sequence[Subscription]) -> None:
        engine = self._engine()
        if engine is not None:
            for channel in {subscription.backend.channel for subscription in subscriptions}:
                engine.subscribed(channel)
        if any(subscription.broker is not None for subscription in subscriptions):
            self._notifier.wake()

    def _at_hand(self, wanted: Wanted, asker: Identity | None) -> Wish | None:
        """As `_wishes` does, for one; None: something of it may wait for the store or for Spark."""
        name = wanted.channel
        if wanted.beginning is not None or filtered_dataset(name) is not None:
            return None
        if not self._store.catalog.knows_channel(name):
            return None
        wish = self._asked_for(wanted, asker)
        channel, engine = self._store.catalog.channel(name), self._engine()
        if channel.bound or (engine is not None and not engine.vouches(name, wish.arguments)):
            return None
        return wish

    def _wishes(self, wanted: Sequence[Wanted], asker: Identity | None) -> list[Wish]:
        """May wait for the store and for Spark."""
        wishes = []
        for place, asked in enumerate(wanted):
            with placed(place):
                wishes.append(self._asked_for(asked, asker))
        self._check_arguments(wishes)
        bound = {name for name in {wish.channel for wish in wishes} if self._bound.claims(name)}
        for subscriber in {wish.subscriber for wish in wishes if wish.channel in bound}:
            known = self._store.subscriptions.of_subscriber(subscriber)
            self._end_unfit(subscriber, known, claims_of(asker, subscriber))
        return wishes

    def _asked_for(self, wanted: Wanted, asker: Identity | None) -> Wish:
        """What is wanted, its arguments bound. Whether the query can compute with them is not known
        yet."""
        name, subscriber = wanted.channel, wanted.subscriber
        self._permissions.require_subscribe(asker, name)
        if wanted.beginning is not None:
            checked_beginning(wanted.beginning)
        _check_size(wanted.arguments)
        dataset = self._routing.dataset(name)
        channel = self._store.catalog.channel(name)
        claims = claims_of(asker, subscriber)
        if dataset is not None:
            arguments = self._routing.bind(channel, dataset, wanted.arguments, claims)
        else:
            arguments = settle(channel, bind_arguments(channel, wanted.arguments, claims))
        marker, since = self._beginning(channel, dataset, arguments, wanted.beginning)
        return Wish(subscriber, channel.name, arguments, wanted.broker, marker, since)

    def _check_arguments(self, wishes: Sequence[Wish]) -> None:
        """Who resumes while Spark starts does not wait for it; nor who asks what others ask."""
        engine = self._engine()
        if engine is None:
            return
        doubtful: dict[str, list[int]] = {}
        for place, wish in enumerate(wishes):
            filtered = filtered_dataset(wish.channel) is not None
            if not filtered and not engine.vouches(wish.channel, wish.arguments):
                doubtful.setdefault(wish.channel, []).append(place)
        for channel, places in doubtful.items():
            known = self._store.subscriptions.known(channel, [wishes[n].arguments for n in places])
            places = [place for place, there in zip(places, known, strict=True) if not there]
            checked: set[Mask] = set()
            for place in places:
                mask = mask_of(wishes[place].arguments)
                if mask and mask not in checked:
                    checked.add(mask)
                    with placed(place):
                        engine.check_open(channel, mask)
            refused = engine.first_refused(channel, [wishes[n].arguments for n in places])
            if refused is not None:
                with placed(places[refused[0]]):
                    raise refused[1]

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
