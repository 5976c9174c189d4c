"""Who comes, subscribes or leaves, from the first word to the cluster's answer.

Calls that the cluster did not answer are repeated: for a connection as long as it is open, for a
subscription a few times. What was asked of a store that was replaced is asked again of its
successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    Asker,
    Attached,
    AttachSubscriber,
    CreateSubscription,
    DeleteSubscription,
    Effect,
    Fail,
    Refuse,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from tocsin.broker.machine.events import QueryToken
from tocsin.broker.machine.retry import Retry
from tocsin.errors import NotFound, QuotaExceeded, TocsinError, Unavailable
from tocsin.model import Subscription
from tocsin.protocol.client import Interest

TRIES = 5
NEVER_ASKED = QueryToken(0, None)


@dataclass(slots=True, eq=False)
class Arrival:
    """One thing that is asked of the cluster in a subscriber's name."""

    subscriber: str
    retry: Retry
    tries: int | None  # that are left; None: without end
    asked: QueryToken
    asking: bool = False  # the cluster's answer is under way
    due_at: float | None = None  # to be asked again
    token: str = field(default="", repr=False)  # what the subscriber showed


@dataclass(slots=True, eq=False, kw_only=True)
class _Connecting(Arrival):
    connection: int
    inline: bool


@dataclass(slots=True, eq=False, kw_only=True)
class _Attaching(Arrival):
    request: Asker[Attached]
    needs: int | None  # a subscription that must be among those that come


@dataclass(slots=True, eq=False, kw_only=True)
class _Subscribing(Arrival):
    request: Asker[Subscribed]
    interest: Interest
    connection: int | None  # that the wish came over
    elsewhere: int | None = None  # it exists, at another broker: its subscriber is brought here


@dataclass(slots=True, eq=False, kw_only=True)
class _Unsubscribing(Arrival):
    request: Asker[Unsubscribed]
    subscription: int


_Any = _Connecting | _Attaching | _Subscribing | _Unsubscribing


@dataclass
class Arrivals:
    name: str
    core: BrokerCore
    jitter: float
    _last: int = 0
    _waiting: dict[int, _Any] = field(default_factory=dict)
    _connections: dict[int, int] = field(default_factory=dict)  # open ones, not welcomed: arrival

    @property
    def asking(self) -> bool:
        """Is an answer under way that may change what is served here?"""
        return any(arrival.asking for arrival in self._waiting.values())

    # -- what is asked ----------------------------------------------------------------------------

    def connect(
        self, connection: int, subscriber: str, inline: bool, patient: bool, token: str
    ) -> list[Effect]:
        retry, tries = Retry(0.05, 5.0, self.jitter), None if patient else 1
        self._connections[connection] = self._last + 1
        return self._begin(
            _Connecting(
                subscriber,
                retry,
                tries,
                NEVER_ASKED,
                token=token,
                connection=connection,
                inline=inline,
            )
        )

    def attach(
        self, request: Asker[Attached], subscriber: str, needs: int | None, token: str
    ) -> list[Effect]:
        return self._begin(
            _Attaching(
                subscriber,
                self._few(),
                1,
                NEVER_ASKED,
                token=token,
                request=request,
                needs=needs,
            )
        )

    def subscribe(
        self,
        request: Asker[Subscribed],
        subscriber: str,
        interest: Interest,
        connection: int | None,
        token: str,
    ) -> list[Effect]:
        return self._begin(
            _Subscribing(
                subscriber,
                self._few(),
                TRIES,
                NEVER_ASKED,
                token=token,
                request=request,
                interest=interest,
                connection=connection,
            )
        )

    def unsubscribe(
        self, request: Asker[Unsubscribed], subscriber: str, subscription: int
    ) -> list[Effect]:
        return self._begin(
            _Unsubscribing(
                subscriber,
                self._few(),
                TRIES,
                NEVER_ASKED,
                request=request,
                subscription=subscription,
            )
        )

    def disconnected(self, connection: int) -> None:
        """Its client left while the cluster was asked."""
        number = self._connections.pop(connection, None)
        if number is not None:
            del self._waiting[number]

    def _few(self) -> Retry:
        return Retry(0.1, 1.0, self.jitter)

    def _begin(self, arrival: _Any) -> list[Effect]:
        self._last += 1
        self._waiting[self._last] = arrival
        return [self._ask(self._last)]

    def _ask(self, number: int) -> Effect:
        arrival = self._waiting[number]
        arrival.asked, arrival.asking, arrival.due_at = self.core.query_token, True, None
        match arrival:
            case _Subscribing(elsewhere=None):
                return CreateSubscription(
                    number, arrival.subscriber, arrival.interest, arrival.token
                )
            case _Unsubscribing():
                return DeleteSubscription(number, arrival.subscriber, arrival.subscription)
            case _:
                return AttachSubscriber(number, arrival.subscriber, arrival.token)

    def again(self, core: BrokerCore) -> list[Effect]:
        """The store was replaced: its successor is asked."""
        self.core = core
        return [self._ask(number) for number in self._waiting]

    def tick(self, now: float) -> list[Effect]:
        due = [
            number
            for number, arrival in self._waiting.items()
            if arrival.due_at is not None and arrival.due_at <= now
        ]
        return [self._ask(number) for number in due]

    # -- answers ----------------------------------------------------------------------------------

    def attached(
        self,
        number: int,
        subscriptions: Sequence[Subscription],
        store_id: str,
        now: float,
        most_connections: int | None,
    ) -> list[Effect]:
        arrival = self._waiting.pop(number, None)
        match arrival:
            case None:  # its client left
                return []
            case _Connecting():
                del self._connections[arrival.connection]
                used = len(self.core.table.of(arrival.subscriber).connections)
                if most_connections is not None and used >= most_connections:
                    error = _too_many_connections(arrival.subscriber, used, most_connections)
                    effects = self._served(arrival, subscriptions, now)
                    return [Refuse(arrival.connection, error), *effects]
                effects = self.core.connected(
                    arrival.connection,
                    arrival.subscriber,
                    arrival.inline,
                    subscriptions,
                    arrival.asked,
                    now,
                )
                current = [self.core.current(subscription) for subscription in subscriptions]
                return [Welcome(arrival.connection, store_id, current), *effects]
            case _Attaching() | _Subscribing():
                effects = self._served(arrival, subscriptions, now)
                return [self._reply(arrival, subscriptions), *effects]
            case _:
                raise AssertionError(f"{arrival} was not attached")

    def _served(
        self, arrival: Arrival, subscriptions: Sequence[Subscription], now: float
    ) -> list[Effect]:
        """The cluster has moved these here."""
        effects: list[Effect] = []
        for subscription in subscriptions:
            effects += self.core.subscribed(subscription, arrival.asked, now)
        return effects

    def _reply(
        self, arrival: _Attaching | _Subscribing, subscriptions: Sequence[Subscription]
    ) -> Effect:
        current = {
            subscription.id: self.core.current(subscription) for subscription in subscriptions
        }
        if isinstance(arrival, _Attaching):
            if arrival.needs is None or arrival.needs in current:
                return Attached(arrival.request, list(current.values()))
            missing = NotFound(f"you have no subscription {arrival.needs}", field="subscription")
            return Fail(arrival.request, missing)
        assert arrival.elsewhere is not None
        if arrival.elsewhere in current:
            return Subscribed(arrival.request, current[arrival.elsewhere])
        over = Unavailable(f"subscription {arrival.elsewhere} has just ended", hint="try again")
        return Fail(arrival.request, over)

    def subscribed(self, number: int, subscription: Subscription, now: float) -> list[Effect]:
        arrival = self._waiting[number]
        assert isinstance(arrival, _Subscribing)
        if subscription.broker == self.name:
            del self._waiting[number]
            effects = self.core.subscribed(subscription, arrival.asked, now)
            # Whoever asked must hear of it before signals of the new subscription come.
            return [Subscribed(arrival.request, self.core.current(subscription)), *effects]
        # Whoever asks here comes here with all they have, unless they have gone there since.
        connection = arrival.connection
        if connection is not None and connection not in self.core.table.connections:
            del self._waiting[number]
            return [Fail(arrival.request, Unavailable("the connection that asked is closed"))]
        arrival.elsewhere, arrival.tries = subscription.id, 1
        return [self._ask(number)]

    def unsubscribed(self, number: int, now: float) -> list[Effect]:
        arrival = self._waiting.pop(number)
        assert isinstance(arrival, _Unsubscribing)
        return [*self._forget(arrival, now), Unsubscribed(arrival.request)]

    def failed(self, number: int, error: TocsinError, now: float) -> list[Effect]:
        arrival = self._waiting.get(number)
        if arrival is None:
            return []
        arrival.asking = False
        if arrival.tries is not None:
            arrival.tries -= 1
        if isinstance(error, Unavailable) and arrival.tries != 0:
            arrival.due_at = now + arrival.retry.next_s()
            return []
        del self._waiting[number]
        effects: list[Effect] = []
        if isinstance(arrival, _Connecting):
            del self._connections[arrival.connection]
            return [Refuse(arrival.connection, error)]
        if isinstance(arrival, _Unsubscribing) and isinstance(error, NotFound):
            effects = self._forget(arrival, now)
        request: Asker[Any] = arrival.request
        return [*effects, Fail(request, error)]

    def _forget(self, arrival: _Unsubscribing, now: float) -> list[Effect]:
        frontend = self.core.table.frontends.get(arrival.subscription)
        if frontend is None or frontend.subscriber != arrival.subscriber:
            return []
        return self.core.unsubscribed(arrival.subscription, now)


def _too_many_connections(subscriber: str, used: int, most: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"{subscriber} has {used} of {most} connections to this broker",
        field="connections",
        hint="close another one, or have an admin say: SET QUOTA connections = … FOR ROLE …",
    )
