"""Which token of a subscriber is the newest one shown here, as far as claims count.

Subscriptions may be bound to claims, and the cluster compares them with the token that comes with
each arrival. A subscriber is one person: what two tokens of theirs say otherwise, the newer one
decides, and connections that were opened with the older one are closed. Nothing is compared when
results are delivered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from tocsin.broker.machine.subscription_table import SubscriptionTable
from tocsin.broker.server.client_connections import ClientConnections
from tocsin.protocol import client as frames
from tocsin.service.tokens import Identity

REMEMBERED = 65_536  # subscribers


class ShownTokens:
    def __init__(
        self, table: Callable[[], SubscriptionTable], connections: ClientConnections
    ) -> None:
        self._table = table
        self._connections = connections
        self._newest: OrderedDict[str, Identity] = OrderedDict()

    def arriving(self, identity: Identity) -> None:
        """A subscriber shows a token, which the cluster is going to look at."""
        if not self._table().bound:
            return
        self._newest[identity.subject] = identity
        self._newest.move_to_end(identity.subject)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)
        self._close_others(identity.subject)

    def arrived(self, identity: Identity) -> None:
        """The cluster has looked at it; a newer one may have been shown meanwhile."""
        if self._table().bound:
            self._newest.setdefault(identity.subject, identity)
            self._close_others(identity.subject)

    def _close_others(self, subscriber: str) -> None:
        claims, newest = self._claims(subscriber), self._newest[subscriber]
        numbers = self._table().of(subscriber).connections
        for connection in self._connections.of_numbers(numbers):
            if not _alike(connection.identity, newest, claims):
                why = "another token of yours says otherwise: reconnect"
                connection.close(frames.COME_AGAIN, why)

    def _claims(self, subscriber: str) -> set[str]:
        """What the subscriber's subscriptions here are bound to."""
        frontends = self._table().of(subscriber).frontends.values()
        return {claim for frontend in frontends for claim in frontend.backend.claims}


def _alike(newest: Identity, identity: Identity, claims: set[str]) -> bool:
    return all(newest.claims.get(claim) == identity.claims.get(claim) for claim in claims)
