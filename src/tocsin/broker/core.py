"""The broker's core: events in, effects out. The live server, the fault simulation and the tests
drive this one object; it reads no clock, opens no socket, starts no task.

It keeps memory only. Everything durable is at the cluster, so that after a crash `loaded` and the
news since then restore all. Rules that hold throughout:

- Heads are absolute: a notice may be lost, repeated, late or stale without harm.
- Notices are hints. What takes something away (a subscription that left, a new epoch) is believed
  only from an answer to a question that was asked after the core learned the contrary.
- Clients are told of results only after these were cached or deliberately passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tocsin.broker.attachments import Attachments, Frontend, Get
from tocsin.broker.effects import (
    Acked,
    Effect,
    Marker,
    Request,
    Signal,
)
from tocsin.broker.events import Moment, NewHead, RangeAnswer
from tocsin.broker.gets import Gets
from tocsin.broker.intake import Fetches, Intake
from tocsin.broker.markers import Markers, refused
from tocsin.broker.membership import Membership
from tocsin.broker.news import News
from tocsin.caching import ResultCache
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
    ) -> None:
        self.cache = ResultCache(policy, budget_bytes, now)
        self.attachments = Attachments()
        self._fetches = Fetches(self.attachments, fetch_limit)
        self._gets = Gets(self.cache, self.attachments, self._fetches)
        self._intake = Intake(self.cache, self.attachments, self._fetches, self._gets.grown)
        self._markers = Markers()
        self._members = Membership(self.cache, self.attachments, self._markers)
        self._news = News(news_poll_s)

    @property
    def moment(self) -> Moment:
        """To be taken before a question to the cluster and handed back with its answer."""
        return Moment(self.attachments.next_event(), self._news.sequence)

    # -- what is attached here ------------------------------------------------------------------

    def loaded(
        self, sequence: int, subscriptions: Sequence[Subscription], asked: Moment, now: float
    ) -> list[Effect]:
        """All subscriptions that the cluster has for this broker, at start or to start anew."""
        self.attachments.next_event()
        effects: list[Effect] = []
        listed = {one.id for one in subscriptions}
        gone = [
            frontend
            for frontend in self.attachments.frontends.values()
            if frontend.id not in listed and frontend.attached < asked.event
        ]
        effects += self._members.depart([(frontend, None) for frontend in gone], now)
        for one in subscriptions:
            self._attach(one, asked, now, effects)
        self._news.start(sequence, now)
        return effects + self._news.ask(self.attachments.next_event(), now)

    def connected(
        self,
        connection: int,
        subscriber: str,
        inline: bool,
        subscriptions: Sequence[Subscription],
        asked: Moment,
        now: float,
    ) -> list[Effect]:
        """A connection of a subscriber, whose subscriptions the cluster has attached here: all.

        The driver sends the welcome (of what `current` makes of the subscriptions) before it
        carries out the effects: a Signal among them may correct an older head.
        """
        self.attachments.next_event()
        effects: list[Effect] = []
        listed = {one.id for one in subscriptions}
        over = [
            frontend
            for frontend in self.attachments.of(subscriber).frontends.values()
            if frontend.id not in listed and frontend.attached < asked.event
        ]
        effects += self._members.end(over, now)
        for one in subscriptions:
            self._attach(one, asked, now, effects)
        self._members.connect(connection, subscriber, inline, now)
        self._news.again_from(asked.sequence)
        return effects + self._correct(subscriptions, [connection])

    def disconnected(self, connection: int, now: float) -> list[Effect]:
        """The subscriber stays attached: what comes meanwhile is cached for its return."""
        self.attachments.next_event()
        self._members.disconnect(connection, now)
        return []

    def subscribed(self, subscription: Subscription, asked: Moment, now: float) -> list[Effect]:
        self.attachments.next_event()
        effects: list[Effect] = []
        self._attach(subscription, asked, now, effects)
        self._news.again_from(asked.sequence)
        connections = list(self.attachments.of(subscription.subscriber).connections)
        return effects + self._correct([subscription], connections)

    def current(self, told: Subscription) -> Subscription:
        """What clients are to be told of it: the same as this broker knows it now."""
        return self._members.current(told)

    def _attach(self, one: Subscription, asked: Moment, now: float, effects: list[Effect]) -> None:
        backend = self._members.attach(one, asked, now)
        if one.backend.epoch == backend.epoch:
            self._intake.hear(backend, one.backend.head, (), now, effects)

    def _correct(self, told: Iterable[Subscription], connections: list[int]) -> list[Effect]:
        """Signals that these connections missed: sent while the cluster's answer was under way."""
        if not connections:
            return []
        backends = [(self.attachments.backends[one.backend.id], one.backend) for one in told]
        return [
            Signal(here.id, here.epoch, here.fetched, connections)
            for here, there in backends
            if (here.epoch != there.epoch or here.fetched > there.head) and here.fetched > 0
        ]

    def unsubscribed(self, subscription: int, now: float) -> list[Effect]:
        self.attachments.next_event()
        frontend = self.attachments.frontends.get(subscription)
        return [] if frontend is None else self._members.end([frontend], now)

    # -- news: heads and departures ---------------------------------------------------------------

    def notice(
        self, heads: Iterable[NewHead], detached: Iterable[Departure], now: float
    ) -> list[Effect]:
        """From the cluster, perhaps repeated, late or out of order: heads count, the rest hints."""
        self.attachments.next_event()
        effects: list[Effect] = []
        doubtful = any(one.subscription in self.attachments.frontends for one in detached)
        for told in heads:
            backend = self.attachments.backends.get(told.backend)
            if backend is None:
                continue
            if backend.epoch == told.epoch:
                self._intake.hear(backend, told.head, told.results, now, effects)
            else:
                doubtful = True
        if doubtful:
            self._news.soon(now)
            effects += self._news.ask(self.attachments.next_event(), now)
        return effects

    def news(
        self, sequence: int, heads: Iterable[NewHead], detached: Iterable[Departure], now: float
    ) -> list[Effect]:
        """The cluster's answer to AskNews."""
        asked = self._news.answered()
        if asked is None:
            return []
        self.attachments.next_event()
        effects: list[Effect] = []
        again = False
        over: list[Frontend] = []
        moved: list[tuple[Frontend, str | None]] = []
        for one in detached:
            frontend = self.attachments.frontends.get(one.subscription)
            if frontend is None:
                continue
            if frontend.attached >= asked.event:
                again = True  # it came since we asked: has it left again, or is this from before?
            elif one.to is None:
                over.append(frontend)
            else:
                moved.append((frontend, one.to))
        effects += self._members.end(over, now) + self._members.depart(moved, now)
        for told in heads:
            backend = self.attachments.backends.get(told.backend)
            if backend is None:
                continue
            if self._members.is_current(backend, told.epoch, asked.event, now):
                self._intake.hear(backend, told.head, told.results, now, effects)
            else:
                again = True
        self._news.heard(sequence)
        if again:
            self._news.again_from(asked.sequence)
            self._news.soon(now)
        return effects + self._news.ask(self.attachments.next_event(), now)

    def news_failed(self, now: float) -> list[Effect]:
        self._news.failed(now)
        return []

    def routed(self, result: Result, now: float) -> list[Effect]:
        """The next result of a filter, from the overlay."""
        self.attachments.next_event()
        effects: list[Effect] = []
        self._intake.routed(self.attachments.filters[result.backend], result, now, effects)
        return effects

    def lost(self, backend: int, upto: int, now: float) -> list[Effect]:
        """The overlay cannot bring what a filter had up to there: it is no longer kept."""
        self.attachments.next_event()
        effects: list[Effect] = []
        self._intake.lost(self.attachments.filters[backend], upto, now, effects)
        return effects

    # -- fetches, gets, acknowledgements ----------------------------------------------------------

    def fetched(self, fetch: int, answer: RangeAnswer, now: float) -> list[Effect]:
        self.attachments.next_event()
        effects: list[Effect] = []
        fetching = self._fetches.end(fetch)
        if fetching is None:
            return effects
        backend = fetching.backend
        current = False
        if self.attachments.holds(backend):
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
        self.attachments.next_event()
        effects: list[Effect] = []
        fetching = self._fetches.end(fetch)
        if fetching is not None:
            if fetching.gets is None:
                self._intake.retry_later(fetching.backend, now)
            self._gets.failed(fetching, effects)
        return effects

    def get(
        self,
        request: Request,
        subscriber: str,
        subscription: int,
        now: float,
        *,
        after: int | None = None,
        epoch: str | None = None,
        limit: int | None = None,
        wait_until: float | None = None,
    ) -> list[Effect]:
        """Results after a cursor (None: the marker). One Answer or Fail follows, now or later.

        A cursor of another epoch is answered from the beginning of the present one; the epoch of
        the answer tells. With `wait_until` an empty answer is held back until then.
        """
        self.attachments.next_event()
        effects: list[Effect] = []
        most = self._fetches.limit
        limit = most if limit is None else max(1, min(limit, most))
        get = Get(request, subscriber, subscription, after, epoch, limit, wait_until)
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
        request: Request = None,
    ) -> list[Effect]:
        """Everything up to `position` was taken. Acked follows when that is durable.

        A position beyond the head counts as the head. Positions of another epoch are not compared,
        and nothing moves: Acked tells the present epoch and its marker at once.
        """
        self.attachments.next_event()
        connections = [] if connection is None else [connection]
        requests = [] if request is None else [request]
        frontend = self.attachments.frontends.get(subscription)
        if frontend is None or frontend.subscriber != subscriber:
            return refused(subscription, connections, requests)
        backend = frontend.backend
        position = min(position, backend.head)
        if epoch == backend.epoch and position > frontend.durable:
            marker = Marker(subscription, epoch, position)
            if self._members.advance(frontend, position, now):
                self._markers.gather(marker)
            self._markers.confirm(marker, connection, request)
            return []
        if not connections and not requests:
            return []
        return [Acked(subscription, backend.epoch, frontend.durable, connections, requests)]

    def markers_stored(self, unknown: Collection[int]) -> list[Effect]:
        """The markers under way are durable, but for subscriptions that the cluster has not."""
        self.attachments.next_event()
        stored, effects = self._markers.stored(unknown)
        for marker in stored:
            frontend = self.attachments.frontends.get(marker.subscription)
            if frontend is not None and frontend.backend.epoch == marker.epoch:
                frontend.durable = max(frontend.durable, marker.position)
        return effects

    def markers_failed(self, now: float) -> list[Effect]:
        self._markers.failed(now)
        return []

    def tick(self, now: float) -> list[Effect]:
        """Whatever time brings: markers to store, retries, news to ask for, expiry, polls to end.

        To be called every few hundredths of a second; that is how long markers are gathered.
        """
        event = self.attachments.next_event()
        effects: list[Effect] = []
        self.cache.expire(now)
        self._intake.retry(now, effects)
        self._gets.expire(now, effects)
        return effects + self._markers.flush(now) + self._news.ask(event, now)

    def set_policy(
        self, policy: CachePolicy, now: float, budget_bytes: int | None = None
    ) -> list[Effect]:
        """Switch the cache policy or budget at run time. Nothing is lost: gets read the store."""
        self.cache.set_policy(policy, now, budget_bytes)
        return []
