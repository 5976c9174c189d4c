"""Who joins, leaves and how far each has read, kept in step with the result cache.

Here is the rule for facts that contradict each other: an answer of the cluster overrules what was
learned before its question was asked, never what was learned since.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tocsin.broker.machine.effects import CloseConnection, Effect, Ended
from tocsin.broker.machine.events import QueryToken
from tocsin.broker.machine.markers import Markers
from tocsin.broker.machine.subscription_table import Backend, Frontend, SubscriptionTable
from tocsin.caching import ResultCache
from tocsin.model import BackendSubscription, Subscription


class Members:
    def __init__(self, cache: ResultCache, table: SubscriptionTable, markers: Markers) -> None:
        self._cache = cache
        self._table = table
        self._markers = markers

    def attach(self, subscription: Subscription, asked: QueryToken, now: float) -> Backend:
        """Serve this subscription from now on, or go on serving it."""
        stored = subscription.backend
        frontend = self._table.frontends.get(subscription.id)
        if frontend and (frontend.backend.id, frontend.subscriber) != (
            stored.id,
            subscription.subscriber,
        ):
            self._remove(frontend, now)  # the number was given again
            frontend = None
        backend = self._table.backends.get(stored.id) or self._open(stored)
        if not self.is_current(backend, stored.epoch, asked.event, now, stored.head):
            durable = marker = 0
        else:
            durable = subscription.marker
            marker = max(durable, self._markers.latest(subscription.id, stored.epoch))
        event = self._table.event
        if frontend is None:
            away_since = None if self._table.of(subscription.subscriber).connections else now
            frontend = Frontend(
                marker,
                away_since,
                subscription.id,
                subscription.subscriber,
                backend,
                durable,
                event,
            )
            self._table.add(frontend)
            self._cache.attach(backend.id, frontend, now)
        else:
            frontend.attached = event
            self.advance(frontend, marker, now)
            frontend.durable = max(frontend.durable, durable)
        return backend

    def _open(self, stored: BackendSubscription) -> Backend:
        # What exists already is read from the store; what comes from now on is cached.
        backend = Backend(
            stored.id,
            stored.epoch,
            stored.head,
            stored.head,
            self._table.event,
            stored.filter,
            stored.channel,
            stored.attachments,
            stored.keys,
            stored.claims,
        )
        self._table.open(backend)
        self._cache.open(stored.id, stored.head)
        return backend

    def end(self, gone: Iterable[Frontend], now: float) -> list[Effect]:
        """These are over; their subscribers stay."""
        effects: list[Effect] = []
        for frontend in gone:
            connections = list(self._table.of(frontend.subscriber).connections)
            self._remove(frontend, now)
            if connections:
                effects.append(Ended(frontend.id, connections))
        return effects

    def depart(self, gone: Iterable[tuple[Frontend, str | None]], now: float) -> list[Effect]:
        """These are elsewhere now, and their subscribers follow with all they have: a subscriber
        is served by one broker. None: nobody knows where, or whether they are over."""
        follow: dict[str, str | None] = {}
        for frontend, to in gone:
            self._remove(frontend, now)
            follow[frontend.subscriber] = to
        effects: list[Effect] = []
        for name, to in follow.items():
            for connection in list(self._table.of(name).connections):
                self.disconnect(connection, now)
                effects.append(CloseConnection(connection, to))
        return effects

    def _remove(self, frontend: Frontend, now: float) -> None:
        backend = frontend.backend
        self._table.remove(frontend)
        self._cache.detach(backend.id, frontend, now)
        if not backend.frontends:
            self._table.close(backend)
            self._cache.close(backend.id, now)

    def connect(self, connection: int, name: str, inline: bool, now: float) -> None:
        """A subscriber's first connection ends its absence."""
        self.disconnect(connection, now)
        self._table.connect(connection, name, inline)
        for frontend in self._table.of(name).frontends.values():
            if frontend.away_since is not None:
                self._cache.came(frontend.backend.id, frontend, now)

    def disconnect(self, connection: int, now: float) -> None:
        """The subscriber stays attached; with its last connection it goes away."""
        name = self._table.disconnect(connection)
        if name is None:
            return
        subscriber = self._table.of(name)
        if not subscriber.connections:
            for frontend in subscriber.frontends.values():
                self._cache.went(frontend.backend.id, frontend, now)

    def advance(self, frontend: Frontend, marker: int, now: float) -> bool:
        """Move the marker forward; False if it stood there already."""
        if marker <= frontend.marker:
            return False
        self._cache.advance(frontend.backend.id, frontend, marker, now)
        self._table.watcher.acknowledged(frontend)
        return True

    def is_current(
        self, backend: Backend, epoch: str, asked: int, now: float, head: int = 0
    ) -> bool:
        """Is this the present epoch? If the answer is newer than what we know, it is now.

        `head`: of a filter, whose positions are those of a log that goes on.
        """
        if epoch == backend.epoch:
            return True
        if asked <= backend.learned:
            return False
        backend.epoch, backend.learned = epoch, self._table.event
        self._table.refiltered += backend.filter is not None
        beginning = head if backend.filter is not None else 0
        backend.head = backend.fetched = beginning
        for frontend in backend.frontends.values():
            frontend.marker = frontend.durable = 0
        self._cache.reset(backend.id, beginning, now)
        return True

    def current(self, subscription: Subscription) -> Subscription:
        """The same as this broker knows it now: what clients are to be told of it.

        The cluster's answer may be older than what clients have learned here meanwhile.
        """
        frontend = self._table.frontends.get(subscription.id)
        if frontend is None:
            return subscription
        backend, marker = frontend.backend, frontend.marker
        behind = backend.filter is None and backend.fetched < subscription.backend.head
        if backend.epoch == subscription.backend.epoch and behind:
            return replace(subscription, marker=marker)
        there = replace(subscription.backend, epoch=backend.epoch, head=backend.fetched)
        return replace(subscription, backend=there, marker=marker)
