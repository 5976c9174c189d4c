"""`BrokerMachine`: all that a broker decides, as one object. Events in, effects out.

The live server, the fault simulation and the tests drive it. It reads no clock, opens no socket,
starts no task and draws no random number. Whoever drives it

- calls `tick` every few hundredths of a second: what takes time is data here, and comes true then;
- carries effects out in order;
- hands the answer to each call of the cluster back under its number, or the error to `failed`.

Numbers are never given twice. When the cluster's store was replaced, all open calls are forgotten
with the core that made them, so that late answers of the past are recognised and change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from tocsin.broker.machine.arrivals import Arrivals
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    Acked,
    Answer,
    Asker,
    AskNews,
    Attached,
    AttachSubscriber,
    CloseConnection,
    ClusterCall,
    CreateSubscription,
    DeleteSubscription,
    Effect,
    Fetch,
    LoadSubscriptions,
    Marker,
    NewPages,
    OpenStream,
    ReadLog,
    Recalled,
    Register,
    Rejected,
    StoreMarkers,
    StoreReplaced,
    Subscribed,
    Synchronised,
    Unsubscribed,
)
from tocsin.broker.machine.entry import Entry
from tocsin.broker.machine.events import (
    AT_MARKER,
    Cursor,
    LogPart,
    NewHead,
    RangeAnswer,
    StreamLine,
)
from tocsin.broker.machine.fills import Fills
from tocsin.broker.machine.neighbours import Decided, NeighbourCounts, Neighbours
from tocsin.broker.machine.pages import Pages
from tocsin.broker.machine.recalls import Recalls
from tocsin.broker.machine.registration import Registration
from tocsin.broker.machine.routed import RoutedSubscriptions
from tocsin.caching import MessageCache
from tocsin.errors import NotFound, TocsinError, Unavailable
from tocsin.model import Departure, Subscription
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import (
    Asked,
    Deliver,
    Fill,
    Gap,
    Message,
    Publication,
    Recall,
    Relink,
    Router,
    RoutingEffect,
)
from tocsin.policies import CachePolicy
from tocsin.policies.message import MessagePolicy
from tocsin.policies.page import PagePolicy, parse_page_policy
from tocsin.protocol.client import Interest

C = TypeVar("C", bound=ClusterCall)

INWARD = frozenset(
    {
        *(Deliver, Gap, Fill, Recall, Asked, NewPages),
        *(Register, LoadSubscriptions, AttachSubscriber, CreateSubscription, DeleteSubscription),
        *(Fetch, AskNews, StoreMarkers, ReadLog, OpenStream),
    }
)
"""What is not simply for the outside: the parts' words to each other, calls to be numbered."""
NO_PAGES = parse_page_policy("none")


class MachineConfig(Struct, frozen=True, kw_only=True):
    name: str
    policy: CachePolicy
    budget_bytes: int
    message_policy: MessagePolicy
    message_slots: int
    page_policy: PagePolicy = NO_PAGES
    page_bytes: int = 0  # the page cache's budget
    news_poll_s: float = 2.0
    fetch_limit: int = 1000
    marker_flush_s: float = 0.0
    most_held: int = 1000  # publications that a client waits with while the log is read
    jitter: float = 1.0  # of this broker's retries, between 0 and 1


class BrokerMachine:
    core: BrokerCore
    messages: MessageCache[tuple[str, int], Publication]
    router: Router
    pages: Pages  # takes its own events: no other part has to do with what it answers

    def __init__(self, config: MachineConfig, now: float) -> None:
        self.config = config
        self.neighbour_counts = NeighbourCounts()
        self._policy = config.policy
        self._message_policy = config.message_policy
        self._message_slots = config.message_slots
        self._last_call = 0
        self._calls: dict[int, ClusterCall] = {}
        self._registration = Registration(now, config.jitter)
        self.pages = Pages(config.page_policy, config.page_bytes, lambda: self.core.table.watcher)
        self._begin(now)
        self._arrivals = Arrivals(config.name, self.core, config.jitter)

    def _begin(self, now: float) -> None:
        config = self.config
        self.core = BrokerCore(
            self._policy,
            config.budget_bytes,
            now,
            news_poll_s=config.news_poll_s,
            fetch_limit=config.fetch_limit,
            marker_flush_s=config.marker_flush_s,
        )
        self.messages = MessageCache(self._message_policy, self._message_slots)
        self.router = Router(
            config.name,
            self.messages,
            lambda wanted: self._message_policy.reaches(wanted),
            most_held=config.most_held,
        )
        self._routed = RoutedSubscriptions(self.core, self.router)
        self._neighbours = Neighbours(self.core, self.router, self.neighbour_counts)
        self._fills = Fills(self.router, config.jitter)
        self._recalls = Recalls(self.router)
        self._entry = Entry(config.name, self.router, config.jitter)

    # -- what can be seen -------------------------------------------------------------------------

    @property
    def store_id(self) -> str | None:
        """Of the cluster's store; None: this broker is still loading."""
        return self._registration.store_id

    @property
    def entry(self) -> str | None:
        """The broker where publications enter."""
        return self._entry.broker

    @property
    def message_policy(self) -> MessagePolicy:
        return self._message_policy

    @property
    def arriving(self) -> bool:
        """Is an answer of the cluster under way that may change what is served here?"""
        return self._arrivals.asking

    @property
    def filling(self) -> int:
        """Ranges of logs that are still to be read."""
        return len(self._fills)

    def require_loaded(self) -> str:
        """The store's id."""
        if self.store_id is None:
            raise Unavailable("this broker waits for the cluster", hint="try again in a moment")
        return self.store_id

    def serves(self, subscriber: str, subscription: int) -> bool:
        frontend = self.core.table.frontends.get(subscription)
        return frontend is not None and frontend.subscriber == subscriber

    # -- time, and settings -----------------------------------------------------------------------

    def tick(self, now: float) -> list[Effect]:
        effects: list[Effect | RoutingEffect] = [*self.core.tick(now)]
        effects += self._registration.tick(now)
        effects += self._arrivals.tick(now)
        effects += self._fills.tick(now)
        effects += self._entry.tick(now)
        effects += self._recalls.tick(now)
        effects += self.pages.tick(now)
        for decided in self._neighbours.tick(now):
            effects += self._decided(decided, now)
        return self._out(effects, now)

    def flush_markers(self, now: float) -> list[Effect]:
        """Store what was acknowledged so far, however short it was gathered."""
        return self._out(self.core.flush_markers(), now)

    def set_policy(self, policy: CachePolicy, now: float) -> list[Effect]:
        self._policy = policy
        return self._out(self.core.set_policy(policy, now), now)

    def set_message_policy(self, policy: MessagePolicy) -> None:
        """At run time; what is there stays."""
        self._message_policy = self.messages.policy = policy

    def resize_messages(self, slots: int) -> None:
        self._message_slots = slots
        self.messages.resize(slots)

    # -- the cluster: registration, and what it says of its own accord ----------------------------

    def registered(self, call: int, store_id: str, now: float) -> list[Effect]:
        if self._answered(call, Register) is None:
            return []
        effects: list[Effect] = []
        if self.store_id not in (None, store_id):
            effects = self._begin_anew(store_id, now)
        effects += self._registration.registered(store_id, self.core.query_token)
        return self._out(effects, now)

    def _begin_anew(self, store_id: str, now: float) -> list[Effect]:
        """The cluster has another store, and another log: nothing that was known counts. Links are
        made anew, so that neighbours tell again what they want; clients come again."""
        replaced = Unavailable("the cluster was replaced", hint="try again")
        effects: list[Effect] = [StoreReplaced(store_id), *self.core.abandon(replaced)]
        effects += self._recalls.abandon()
        effects += self._entry.close()
        for connection in self.core.table.connections:
            effects.append(CloseConnection(connection, None, store_replaced=True))
        for neighbour in self.router.neighbours:
            effects.append(Relink(neighbour, self.router.incarnation(neighbour)))
        self._calls.clear()
        self.pages.store_replaced()
        self._begin(now)
        return [*effects, *self._arrivals.again(self.core)]

    def loaded(
        self,
        call: int,
        store_id: str | None,
        sequence: int,
        subscriptions: Sequence[Subscription],
        now: float,
        upto: int | None = None,
    ) -> list[Effect]:
        """A page. `store_id`: if the cluster says so. `upto`: there are others behind it."""
        load = self._answered(call, LoadSubscriptions)
        if load is None:
            return []
        asked = self._registration.asked
        assert asked is not None
        if store_id not in (None, self.store_id):  # than we have registered with: once more
            self._registration.failed(now)
            return []
        begins = load.after == 0
        effects = self.core.loaded(sequence, subscriptions, asked, now, begins=begins, upto=upto)
        if upto is not None:
            effects += self._registration.next_page(upto, self.core.query_token)
            return self._out(effects, now)
        self._registration.loaded(now)
        return self._out([Synchronised(self.require_loaded()), *effects], now)

    def notice(
        self,
        store_id: str | None,
        heads: Sequence[NewHead],
        detached: Sequence[Departure],
        now: float,
        *,
        number: int | None = None,
    ) -> list[Effect]:
        """Perhaps lost, repeated, late or out of order: by the `number` that is seen."""
        if store_id != self.require_loaded():
            return self._compare(now, urgent=True)
        return self._out(self.core.notice(heads, detached, now, number=number), now)

    def news(
        self,
        call: int,
        store_id: str | None,
        sequence: int,
        heads: Sequence[NewHead],
        detached: Sequence[Departure],
        now: float,
    ) -> list[Effect]:
        if self._answered(call, AskNews) is None:
            return []
        if store_id not in (None, self.store_id):
            self.core.news_failed(now)
            return self._compare(now, urgent=True)
        effects = self.core.news(sequence, heads, detached, now)
        unknown = any(head.backend not in self.core.table.backends for head in heads)
        if unknown and not self._arrivals.asking:  # somebody was subscribed here by a statement
            effects += self._registration.compare_soon(now)
        return self._out(effects, now)

    def compare(self, now: float) -> list[Effect]:
        """Compare everything with the cluster, as if it had spoken of something unknown."""
        return self._compare(now, urgent=True)

    def _compare(self, now: float, *, urgent: bool = False) -> list[Effect]:
        return self._out(self._registration.compare_soon(now, urgent=urgent), now)

    # -- the cluster: other answers ---------------------------------------------------------------

    def attached(
        self,
        call: int,
        subscriptions: Sequence[Subscription],
        now: float,
        most_connections: int | None = None,
    ) -> list[Effect]:
        """`most_connections`: what the subscriber may have here, if there is a bound."""
        asked = self._answered(call, AttachSubscriber)
        if asked is None:
            return []
        store_id = self.require_loaded()
        arrived = self._arrivals.attached(
            asked.arrival, subscriptions, store_id, now, most_connections
        )
        return self._out(arrived, now)

    def subscribed(self, call: int, subscription: Subscription, now: float) -> list[Effect]:
        asked = self._answered(call, CreateSubscription)
        if asked is None:
            return []
        return self._out(self._arrivals.subscribed(asked.arrival, subscription, now), now)

    def unsubscribed(self, call: int, now: float) -> list[Effect]:
        asked = self._answered(call, DeleteSubscription)
        return (
            [] if asked is None else self._out(self._arrivals.unsubscribed(asked.arrival, now), now)
        )

    def fetched(self, call: int, answer: RangeAnswer, now: float) -> list[Effect]:
        fetch = self._answered(call, Fetch)
        if fetch is None:
            return []
        whole = self._neighbours.join(fetch, answer)
        assert whole is not None
        return self._out(self.core.fetched(fetch.fetch, whole, now), now)

    def markers_stored(self, call: int, unknown: Collection[int], now: float) -> list[Effect]:
        """They are durable, but for subscriptions that the cluster has not."""
        if self._answered(call, StoreMarkers) is None:
            return []
        return self._out(self.core.markers_stored(unknown), now)

    def log_read(self, call: int, part: LogPart, now: float) -> list[Effect]:
        asked = self._answered(call, ReadLog)
        return [] if asked is None else self._out(self._fills.read(asked, part), now)

    def streamed(self, call: int, line: StreamLine, now: float) -> list[Effect]:
        """A line of the stream of records."""
        return self._out(self._entry.streamed(call, line), now)

    def failed(self, call: int, error: TocsinError, now: float) -> list[Effect]:
        """A call had no answer but this."""
        asked = self._calls.pop(call, None)
        effects: Sequence[Effect | RoutingEffect] = []
        match asked:
            case Register() | LoadSubscriptions():
                self._registration.failed(now)
                if self.store_id is None and error.status < 500:
                    effects = [Rejected(error)]
            case AttachSubscriber() | CreateSubscription() | DeleteSubscription():
                effects = self._arrival_failed(asked, error, now)
            case Fetch():
                self._neighbours.forget(asked)
                effects = self.core.fetch_failed(asked.fetch, now)
            case AskNews():
                effects = self.core.news_failed(now)
            case StoreMarkers():
                effects = self.core.markers_failed(error, now)
            case ReadLog():
                effects = self._fills.failed(asked, error, now)
            case OpenStream():
                self._entry.ended(call, now)
        if isinstance(asked, Fetch | AskNews) and isinstance(error, NotFound):
            effects = [*effects, *self._registration.compare_soon(now)]
        return self._out(effects, now)

    def _arrival_failed(
        self,
        asked: AttachSubscriber | CreateSubscription | DeleteSubscription,
        error: TocsinError,
        now: float,
    ) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(asked, AttachSubscriber) and isinstance(error, NotFound):
            # The cluster forgot this broker.
            effects = self._registration.compare_soon(now, urgent=True)
            error = Unavailable("this broker is registering anew", hint="try again")
        return effects + self._arrivals.failed(asked.arrival, error, now)

    def _answered(self, call: int, kind: type[C]) -> C | None:
        """The call that is answered; None if nobody waits for it any longer."""
        asked = self._calls.pop(call, None)
        assert asked is None or isinstance(asked, kind), f"{type(asked)} is no {kind}"
        return asked

    # -- clients ----------------------------------------------------------------------------------

    def connect(
        self,
        connection: int,
        subscriber: str,
        inline: bool,
        now: float,
        *,
        patient: bool = True,
        token: str = "",
    ) -> list[Effect]:
        """Welcome or Refuse follows. A patient client waits until the cluster answers. `token` is
        what the subscriber showed: the cluster decides by it what they may have."""
        arriving = self._arrivals.connect(connection, subscriber, inline, patient, token)
        return self._out(arriving, now)

    def disconnected(self, connection: int, now: float) -> list[Effect]:
        """The subscriber stays attached: what comes meanwhile is cached for its return."""
        self._arrivals.disconnected(connection)
        return self._out(self.core.disconnected(connection, now), now)

    def attach(
        self,
        request: Asker[Attached],
        subscriber: str,
        now: float,
        *,
        needs: int | None = None,
        token: str = "",
    ) -> list[Effect]:
        """Of a client without a connection. `needs`: a subscription that it must have."""
        return self._out(self._arrivals.attach(request, subscriber, needs, token), now)

    def subscribe(
        self,
        request: Asker[Subscribed],
        subscriber: str,
        interest: Interest,
        now: float,
        *,
        connection: int | None = None,
        token: str = "",
    ) -> list[Effect]:
        arriving = self._arrivals.subscribe(request, subscriber, interest, connection, token)
        return self._out(arriving, now)

    def unsubscribe(
        self, request: Asker[Unsubscribed], subscriber: str, subscription: int, now: float
    ) -> list[Effect]:
        return self._out(self._arrivals.unsubscribe(request, subscriber, subscription), now)

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
        """See `BrokerCore.get`."""
        effects = self.core.get(
            request, subscriber, subscription, now, cursor, limit=limit, wait_until=wait_until
        )
        return self._out(effects, now)

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
        """See `BrokerCore.ack`."""
        effects = self.core.ack(
            subscriber, subscription, epoch, position, now, connection=connection, request=request
        )
        return self._out(effects, now)

    def ack_many(
        self, subscriber: str, markers: Iterable[Marker], now: float, connection: int
    ) -> list[Effect]:
        """See `BrokerCore.ack_many`."""
        return self._out(self.core.ack_many(subscriber, markers, now, connection), now)

    def recall(
        self, request: Asker[Recalled], wanted: Filter, wait_s: float, now: float
    ) -> list[Effect]:
        """Old messages in the overlay's caches; Recalled follows when the time is over."""
        return self._out(self._recalls.begin(request, wanted, wait_s, now), now)

    # -- the overlay ------------------------------------------------------------------------------

    def assigned(self, entry: str | None, now: float) -> list[Effect]:
        """Where publications enter, as the coordinator says with every heartbeat."""
        return self._out(self._entry.assigned(entry, now), now)

    def linked(self, neighbour: str, incarnation: int, now: float) -> list[Effect]:
        return self._out(self.router.linked(neighbour, incarnation), now)

    def unlinked(self, neighbour: str, incarnation: int, now: float) -> list[Effect]:
        return self._out(self.router.unlinked(neighbour, incarnation), now)

    def heard(
        self, neighbour: str, incarnation: int, sequence: int, message: Message, now: float
    ) -> list[Effect]:
        return self._out(self.router.heard(neighbour, incarnation, sequence, message), now)

    # -- effects ----------------------------------------------------------------------------------

    def _out(self, effects: Sequence[Effect | RoutingEffect], now: float) -> list[Effect]:
        """What is for the outside, in order, after all that concerns the machine itself."""
        if self._routed.in_step:
            for effect in effects:  # a cached get passes here: it has one
                if type(effect) in INWARD:
                    break
            else:
                return cast(list[Effect], effects)
        out: list[Effect] = []
        queue: deque[Effect | RoutingEffect] = deque(effects)
        while True:
            while queue:
                effect = queue.popleft()
                if isinstance(effect, Deliver | Gap | Fill | Recall | Asked | NewPages):
                    queue.extend(self._take(effect, now))
                elif not isinstance(effect, ClusterCall) or effect.call:
                    out.append(effect)
                elif isinstance(effect, Fetch) and (asked := self._neighbours.ask(effect, now)):
                    queue.extend(asked)
                else:
                    out.append(self._number(effect))
            if self._routed.in_step:
                return out
            queue.extend(self._routed.follow())

    def _take(
        self, effect: Deliver | Gap | Fill | Recall | Asked | NewPages, now: float
    ) -> Iterable[Effect | RoutingEffect]:
        """What one part has for another."""
        match effect:
            case Deliver():
                return self._routed.deliver(effect, now)
            case Gap():
                return self._routed.lose(effect, now)
            case Fill():
                return self._fills.begin(effect)
            case Recall():
                self._recalls.answered(effect, now)
                return ()
            case Asked():
                heard = self._neighbours.heard(effect)
                if isinstance(heard, Decided):
                    return self._decided(heard, now)
                return heard or ()
            case NewPages():
                self.pages.announced(effect, now)
                return ()

    def _decided(self, decided: Decided, now: float) -> list[Effect]:
        """Neighbours were asked: the store is for the rest."""
        rest = decided.rest()
        if rest is not None:
            return [self._number(rest)]
        whole = self._neighbours.join(decided.fetch, None)
        assert whole is not None
        return self.core.fetched(decided.fetch.fetch, whole, now)

    def _number(self, call: ClusterCall) -> ClusterCall:
        self._last_call += 1
        numbered = replace(call, call=self._last_call)
        self._calls[self._last_call] = numbered
        if isinstance(call, OpenStream):
            self._entry.opening(self._last_call)
        return numbered
