"""What is bound to claims: whose token counts, and which subscriptions no longer fit it.

A subscription keeps the values that it was made with. The token that its subscriber shows later may
say otherwise, and then the subscription is over. Must not know HTTP or statements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from tocsin.cluster.routing import Routing
from tocsin.errors import Forbidden, NotFound
from tocsin.model import Subscription
from tocsin.service.tokens import Identity
from tocsin.sql import Claims, bound_arguments
from tocsin.storage.store.store import Store


def claims_of(asker: Identity | None, subscriber: str) -> Claims | None:
    """What the subscriber's own token says; None: somebody else asks, and showed none of theirs."""
    if asker is None or asker.subject != subscriber:
        return None
    return {**asker.claims, "sub": asker.subject}


class BoundSubscriptions:
    def __init__(self, store: Store, routing: Routing) -> None:
        self._store = store
        self._routing = routing

    def unfit(
        self, subscriber: str, subscriptions: Iterable[Subscription], claims: Claims | None
    ) -> list[Subscription]:
        """Those that are bound to other values than the claims say. May wait for the store."""
        return [
            subscription
            for subscription in subscriptions
            if self.claims(subscription.backend.channel)
            and not self._fits(subscriber, subscription, claims)
        ]

    def claims(self, channel: str) -> tuple[str, ...]:
        """What subscriptions to a channel are bound to."""
        with contextlib.suppress(NotFound):  # dropped meanwhile
            dataset = self._routing.dataset(channel)
            if dataset is not None:
                return tuple(bound.claim for bound in dataset.bound)
            parameters = self._store.catalog.channel(channel).bound
            return tuple(str(parameter.claim) for parameter in parameters)
        return ()

    def _fits(self, subscriber: str, subscription: Subscription, claims: Claims | None) -> bool:
        name, arguments = subscription.backend.channel, subscription.backend.arguments
        if claims is None:
            raise Forbidden(
                f"subscription {subscription.id} to {name} is bound to claims of {subscriber!r},"
                " whose token was not passed on",
                field="subscriber",
                hint="a broker of this version passes it on",
            )
        try:
            dataset = self._routing.dataset(name)
            if dataset is not None:
                return self._routing.fits(dataset, arguments["where"], claims)
            bound = bound_arguments(self._store.catalog.channel(name), claims)
        except (Forbidden, NotFound):  # the claim is gone; or the channel is
            return False
        return bound.items() <= arguments.items()
