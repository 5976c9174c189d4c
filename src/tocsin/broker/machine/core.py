"""What a broker serves of one store: results, gets, acknowledgements, members. Events in, effects
out: it reads no clock, opens no socket, starts no task. `BrokerMachine` replaces it with the store.

It keeps memory only. Everything durable is at the cluster, so that after a crash `loaded` and the
news since then restore all. Rules that hold throughout:

- Heads are absolute: a notice may be lost, repeated, late or stale without harm.
- Notices are hints. What takes something away (a subscription that left, a new epoch) is believed
  only from an answer to a question that was asked after the core learned the contrary.
- Clients are told of results only after these were cached or deliberately passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    Answer,
    Asker,
    Effect,
    Marker,
    Signal,
)
from tocsin.broker.machine.events import AT_MARKER, Cursor, NewHead, QueryToken, RangeAnswer
from tocsin.broker.machine.gets import Gets, unknown_subscription
from tocsin.broker.machine.loading import Loading
from tocsin.broker.machine.markers import Markers, refused
from tocsin.broker.machine.members import Members
from tocsin.broker.machine.news import NEVER, News
from tocsin.broker.machine.results import Fetches, ResultIntake
from tocsin.broker.machine.subscription_table import Frontend, Get, SubscriptionTable
from tocsin.caching import ResultCache
from tocsin.errors import TocsinError
from tocsin.model import Departure, Result, Subscription
from tocsin.policies import CachePolicy


class BrokerCore:
    def __init__(
        self,
        policy: CachePolicy,
        budget_bytes: int,
        now: float,
        *,
        news_poll_s: float = 2.0,
        fetch_limit: int = 1000,
        marker_flush_s: float = 0.0,
    ) -> None:
        self.cache = ResultCache(policy, budget_bytes, now)
        self.table = SubscriptionTable()
        self._fetches = Fetches(self.table, fetch_limit)
        self._gets = Gets(self.cache, self.table, self._fetches)
        self._intake = ResultIntake(self.cache, self.table, self._fetches, self._gets.grown)
        self._markers = Markers(marker_flush_s, now)
        self._members = Members(self.cache, self.table, self._markers)
        self._news = News(news_poll_s)
        self._loading = Loading(0, ())

    @property
    def query_token(self) -> QueryToken:
        """To be taken before a question to the cluster and handed back with its answer."""
        return QueryToken(self.table.next_event(), self._news.sequence)

    @property
    def keeps_results(self) -> bool:
        """Whether results that come unasked are of use here."""
        return self.cache.policy.caches or self.table.inline > 0

    # -- what is attached here ------------------------------------------------------------------

    def loaded(
        self,
        sequence: int,
        subscriptions: Sequence[Subscription],
        asked: QueryToken,
        now: float,
        *,
        begins: bool = True,
        upto: int | None = None,
    ) -> list[Effect]:
        """The subscriptions that the cluster has for this broker, at start or to start anew: all,
        or the next page of them. One that comes, leaves or grows behind the page that it would be
        on is news since the first page, which is asked for when the last is here."""
        self.table.next_event()
        if begins:
            self._loading = Loading(sequence, self.table.frontends)
        self._loading.take({subscription.id for subscription in subscriptions}, asked, upto)
        effects: list[Effect] = []
        if upto is None:
            gone = self._loading.gone(self.table)
            effects += self._members.depart([(frontend, None) for frontend in gone], now)
        for subscription in subscriptions:
            self._attach(subscription, asked, now, effects)
        if upto is not None:
            return effects
        self._news.start(self._loading.sequence, now)
        return effects + self._news.ask(self.table.next_event(), now)

    def connected(
        self,
        connection: int,
        subscriber: str,
        inline: bool,
        subscriptions: Sequence[Subscription],
        asked: QueryToken,
        now: float,
    ) -> list[Effect]:
        """A connection of a subscriber, whose subscriptions the cluster has attached here: all.

        The driver sends the welcome (of what `current` makes of the subscriptions) before it
        carries out the effects: a Signal among them may correct an older head.
        """
        self.table.next_event()
        effects: list[Effect] = []
        listed = {subscription.id for subscription in subscriptions}
        over = [
            frontend
            for frontend in self.table.of(subscriber).frontends.values()
            if frontend.id not in listed and frontend.attached < asked.event
        ]
        effects += self._members.end(over, now)
        for subscription in subscriptions:
            self._attach(subscription, asked, now, effects)
        self._members.connect(connection, subscriber, inline, now)
        self._news.again_from(asked.sequence)
        return effects + self._correct(subscriptions, [connection])

    def disconnected(self, connection: int, now: float) -> list[Effect]:
        """The subscriber stays attached: what comes meanwhile is cached for its return."""
        self.table.next_event()
        self._members.disconnect(connection, now)
        return []

    def subscribed(self, subscription: Subscription, asked: QueryToken, now: float) -> list[Effect]:
        self.table.next_event()
        effects: list[Effect] = []
        self._attach(subscription, asked, now, effects)
        self._news.again_from(asked.sequence)
        connections = list(self.table.of(subscription.subscriber).connections)
        return effects + self._correct([subscription], connections)

    def current(self, subscription: Subscription) -> Subscription:
        """What clients are to be told of it: the same as this broker knows it now."""
        return self._members.current(subscription)

    def _attach(
        self, subscription: Subscription, asked: QueryToken, now: float, effects: list[Effect]
    ) -> None:
        backend = self._members.attach(subscription, asked, now)
        if subscription.backend.epoch == backend.epoch:
            self._intake.hear(backend, subscription.backend.head, (), now, effects)

    def _correct(
        self, subscriptions: Iterable[Subscription], connections: list[int]
    ) -> list[Effect]:
        """Signals that these connections missed: sent while the cluster's answer was under way."""
        if not connections:
            return []
        backends = [
            (self.table.backends[subscription.backend.id], subscription.backend)
            for subscription in subscriptions
        ]
        return [
            Signal(here.id, here.epoch, here.fetched, connections)
            for here, there in backends
            if (here.epoch != there.epoch or here.fetched > there.head) and here.fetched > 0
        ]

    def unsubscribed(self, subscription: int, now: float) -> list[Effect]:
        self.table.next_event()
        frontend = self.table.frontends.get(subscription)
        return [] if frontend is None else self._members.end([frontend], now)

    # -- news: heads and departures ---------------------------------------------------------------

    def notice(
        self,
        heads: Iterable[NewHead],
        detached: Iterable[Departure],
        now: float,
        *,
        number: int | None = None,
    ) -> list[Effect]:
        """From the cluster, perhaps repeated, late or out of order: heads count, the rest hints."""
        self.table.next_event()
        self._news.noticed(number, now)
        effects: list[Effect] = []
        doubtful = any(departure.subscription in self.table.frontends for departure in detached)
        for head in heads:
            backend = self.table.backends.get(head.backend)
            if backend is None:
                continue
            if backend.epoch == head.epoch:
                self._intake.hear(backend, head.head, head.results, now, effects)
            else:
                doubtful = True
        if doubtful:
            self._news.soon(now)
            effects += self._news.ask(self.table.next_event(), now)
        return effects

    def news(
        self, sequence: int, heads: Iterable[NewHead], detached: Iterable[Departure], now: float
    ) -> list[Effect]:
        """The cluster's answer to AskNews."""
        asked = self._news.answered()
        if asked is None:
            return []
        self.table.next_event()
        effects: list[Effect] = []
        again = False
        over: list[Frontend] = []
        moved: list[tuple[Frontend, str | None]] = []
        for departure in detached:
            frontend = self.table.frontends.get(departure.subscription)
            if frontend is None:
                continue
            if frontend.attached >= asked.event:
                again = True  # it came since we asked: has it left again, or is this from before?
            elif departure.to is None:
                over.append(frontend)
            else:
                moved.append((frontend, departure.to))
        effects += self._members.end(over, now) + self._members.depart(moved, now)
        for head in heads:
            backend = self.table.backends.get(head.backend)
            if backend is None:
                continue
            if self._members.is_current(backend, head.epoch, asked.event, now):
                self._intake.hear(backend, head.head, head.results, now, effects)
            else:
                again = True
        self._news.heard(sequence)
        if again:
            self._news.again_from(asked.sequence)
            self._news.soon(now)
        return effects + self._news.ask(self.table.next_event(), now)

    def news_failed(self, now: float) -> list[Effect]:
        self._news.failed(now)
        return []

    def routed(self, result: Result, now: float) -> list[Effect]:
        """The next result of a filter, from the overlay."""
        self.table.next_event()
        effects: list[Effect] = []
        self._intake.routed(self.table.filters[result.backend], result, now, effects)
        return effects

    def lost(self, backend: int, upto: int, now: float) -> list[Effect]:
        """The overlay cannot bring what a filter had up to there: it is no longer kept."""
        self.table.next_event()
        effects: list[Effect] = []
        self._intake.lost(self.table.filters[backend], upto, now, effects)
        return effects

    # -- fetches, gets, acknowledgements ----------------------------------------------------------

    def fetched(self, fetch: int, answer: RangeAnswer, now: float) -> list[Effect]:
        self.table.next_event()
        effects: list[Effect] = []
        fetching = self._fetches.end(fetch)
        if fetching is None:
            return effects
        backend = fetching.backend
        current = False
        if not self.table.holds(backend):
            self._intake.gone(backend)
        else:
            current = self._members.is_current(
                backend, answer.epoch, fetching.event, now, answer.head
            )
            self.cache.fetch_took(backend.id, now - fetching.at)
            if fetching.gets is None:
                self._intake.fill(fetching, answer if current else None, now, effects)
            elif current:
                self._intake.hear(backend, answer.head, (), now, effects)
        self._gets.fetched(fetching, answer, now, effects)
        return effects

    def fetch_failed(self, fetch: int, now: float) -> list[Effect]:
        self.table.next_event()
        effects: list[Effect] = []
        fetching = self._fetches.end(fetch)
        if fetching is not None:
            if fetching.gets is None:
                self._intake.retry_later(fetching.backend, now)
            self._gets.failed(fetching, effects)
        return effects

    def get(
        self,
        request: Asker[Answer] | None,
        subscriber: str,
        subscription: int,
        now: float,
        cursor: Cursor = AT_MARKER,
        *,
        limit: int | None = None,
        wait_until: float | None = None,
    ) -> list[Effect]:
        """Results after a cursor. One Answer or Fail follows, now or later.

        A cursor of another epoch is answered from the beginning of the present one; the epoch of
        the answer tells. With `wait_until` an empty answer is held back until then.
        """
        self.table.next_event()
        effects: list[Effect] = []
        most = self._fetches.limit
        limit = most if limit is None else max(1, min(limit, most))
        get = Get(request, subscriber, subscription, *cursor, limit, wait_until)
        self._gets.start(get, now, effects)
        return effects

    def ack(
        self,
        subscriber: str,
        subscription: int,
        epoch: str,
        position: int,
        now: float,
        *,
        connection: int | None = None,
        request: Asker[Acked] | None = None,
    ) -> list[Effect]:
        """Everything up to `position` was taken. Acked follows when that is durable.

        A position beyond the head counts as the head. Positions of another epoch are not compared,
        and nothing moves: Acked tells the present epoch and its marker at once.
        """
        self.table.next_event()
        connections = [] if connection is None else [connection]
        requests = [] if request is None else [request]
        frontend = self._frontend(subscriber, subscription)
        if frontend is None:
            return refused(subscription, connections, requests, unknown_subscription(subscription))
        marker = self._acknowledge(frontend, epoch, position, now)
        if marker is not None:
            self._markers.confirm(marker, connection, request)
            return []
        if not connections and not requests:
            return []
        epoch = frontend.backend.epoch
        return [Acked(subscription, epoch, frontend.durable, connections, requests)]

    def ack_many(
        self, subscriber: str, markers: Iterable[Marker], now: float, connection: int
    ) -> list[Effect]:
        """Each as by `ack`; what is durable at one moment is told by one AckedMany."""
        self.table.next_event()
        effects: list[Effect] = []
        durable: list[Marker] = []
        for given in markers:
            number = given.subscription
            frontend = self._frontend(subscriber, number)
            if frontend is None:
                effects += refused(number, [connection], [], unknown_subscription(number))
                continue
            marker = self._acknowledge(frontend, given.epoch, given.position, now)
            if marker is not None:
                self._markers.confirm_together(marker, connection)
            else:
                durable.append(Marker(number, frontend.backend.epoch, frontend.durable))
        return [*effects, AckedMany(connection, durable)] if durable else effects

    def _frontend(self, subscriber: str, subscription: int) -> Frontend | None:
        """If it is theirs, and served here."""
        frontend = self.table.frontends.get(subscription)
        return frontend if frontend is not None and frontend.subscriber == subscriber else None

    def _acknowledge(
        self, frontend: Frontend, epoch: str, position: int, now: float
    ) -> Marker | None:
        """The marker that is to be made durable; None if what is durable says all."""
        backend = frontend.backend
        position = min(position, backend.head)
        if epoch != backend.epoch or position <= frontend.durable:
            return None
        marker = Marker(frontend.id, epoch, position)
        if self._members.advance(frontend, position, now):
            self._markers.gather(marker)
        return marker

    def markers_stored(self, unknown: Collection[int]) -> list[Effect]:
        """The markers under way are durable, but for subscriptions that the cluster has not."""
        self.table.next_event()
        stored, effects = self._markers.stored(unknown)
        for marker in stored:
            frontend = self.table.frontends.get(marker.subscription)
            if frontend is not None and frontend.backend.epoch == marker.epoch:
                frontend.durable = max(frontend.durable, marker.position)
        return effects

    def markers_failed(self, error: TocsinError, now: float) -> list[Effect]:
        return self._markers.failed(error, now)

    def tick(self, now: float) -> list[Effect]:
        """Whatever time brings: markers to store, retries, news to ask for, expiry, polls to end.

        To be called every few hundredths of a second.
        """
        event = self.table.next_event()
        effects: list[Effect] = []
        self.cache.expire(now)
        self._intake.retry(now, effects)
        self._gets.expire(now, effects)
        return effects + self._markers.flush(now) + self._news.ask(event, now)

    def flush_markers(self) -> list[Effect]:
        """Store what was acknowledged so far, however short it was gathered."""
        return self._markers.flush(NEVER)

    def abandon(self, error: TocsinError) -> list[Effect]:
        """This core is given up: whoever waits for it hears why."""
        return self._gets.abandon(error) + self._markers.abandon(error)

    def set_policy(
        self, policy: CachePolicy, now: float, budget_bytes: int | None = None
    ) -> list[Effect]:
        """Switch the cache policy or budget at run time. Nothing is lost: gets read the store."""
        self.cache.set_policy(policy, now, budget_bytes)
        return []
