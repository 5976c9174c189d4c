"""A broker process in the simulated world: drives a real core, loses it in a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import (
    Acked,
    Answer,
    AskNews,
    CloseConnection,
    Effect,
    Ended,
    Fail,
    Fetch,
    NotAcked,
    SendInline,
    Signal,
    StoreMarkers,
)
from tocsin.broker.events import NewHead, RangeAnswer
from tocsin.model import Departure, Subscription
from tocsin.policies import parse_policy
from tocsin.simulation.checkers import BrokerChecker, promise
from tocsin.simulation.client import SimulatedClient
from tocsin.simulation.lane import Answered, SimulatedLane

if TYPE_CHECKING:
    from tocsin.simulation.world import World


class SimulatedBroker:
    """A broker process: a core, or none while it is down."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.core: BrokerCore | None = None
        self.lane: SimulatedLane | None = None  # if the world has an overlay
        self.checker: BrokerChecker | None = None
        self.ready = False
        self.compared_at = -1.0  # everything with the cluster
        self.incarnation = 0
        self.connections: dict[int, str] = {}

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        policy = parse_policy(world.random.choice(world.policies))
        limit = world.random.choice([2, 5, 1000])
        self.core = BrokerCore(policy, world.budget_bytes, world.now, fetch_limit=limit)
        self.checker = BrokerChecker(world.cluster, self.core)
        world.began(self)
        self.load()
        self._tick(self.incarnation)

    def crash(self) -> None:
        self.core = self.checker = self.lane = None
        self.ready = False
        self.world.died(self)
        for connection in list(self.connections):
            self.world.break_connection(connection)
        self.connections.clear()

    def load(self) -> None:
        """At start, or to compare everything."""
        core = self.core
        assert core is not None
        asked = core.moment

        def loaded(answer: Any) -> list[Effect]:
            self.ready = True
            self.compared_at = self.world.now
            return core.loaded(answer[0], answer[1], asked, self.world.now)

        self.call(lambda: self.world.cluster.load(self.name), loaded, self.load)

    def _tick(self, incarnation: int) -> None:
        if self.core is not None and incarnation == self.incarnation:
            if self.ready:
                before = self.core.cache.size_bytes
                effects = self.core.tick(self.world.now)
                if effects or self.core.cache.size_bytes != before:  # most ticks bring nothing
                    self.do(effects)
            self.world.later(0.1 * self.world.scale, lambda: self._tick(incarnation))

    def call(
        self,
        work: Callable[[], Any],
        answered: Callable[[Any], list[Effect]],
        failed: Callable[[], list[Effect] | None],
    ) -> None:
        """A call to the cluster: request or answer may be lost, both take their time."""
        world, incarnation = self.world, self.incarnation
        fate = world.random.random() if world.faulty else 1.0

        def alive() -> bool:
            return self.core is not None and self.incarnation == incarnation

        def arrive() -> None:
            down = world.cluster.down
            answer = work() if fate > 0.05 and not down else None
            world.later(world.delay_s(), lambda: come_back(answer, fate < 0.1 or down))

        def come_back(answer: Any, lost: bool) -> None:
            if alive():
                self.do((failed() or []) if lost else answered(answer))

        world.later(world.delay_s(), arrive)

    def notice(self, heads: list[NewHead], detached: list[Departure]) -> None:
        if self.core is not None and self.ready:
            self.do(self.core.notice(heads, detached, self.world.now))

    # -- clients' frames ------------------------------------------------------------------------

    def accept(self, connection: int, client: SimulatedClient) -> None:
        core, world = self.core, self.world
        if core is None or not self.ready:
            world.break_connection(connection)
            return
        self.connections[connection] = client.name
        asked = core.moment

        def attached(subscriptions: Any) -> list[Effect]:
            if connection not in self.connections:
                return []  # the client gave up meanwhile
            effects = core.connected(
                connection, client.name, client.inline, subscriptions, asked, world.now
            )
            told = [core.current(one) for one in subscriptions]
            world.to_client(connection, lambda c: c.welcomed(told))
            return effects

        def failed() -> None:
            world.break_connection(connection)

        self.call(
            lambda: world.cluster.attach(client.name, self.name, connection), attached, failed
        )

    def hang_up(self, connection: int) -> None:
        if self.connections.pop(connection, None) is not None and self.core is not None:
            self.do(self.core.disconnected(connection, self.world.now))

    def receive(self, connection: int, frame: tuple[Any, ...]) -> None:
        core, world = self.core, self.world
        name = self.connections.get(connection)
        if core is None or name is None or connection not in core.attachments.connections:
            return  # frames that come before the welcome are refused
        kind, number, *rest = frame
        if kind == "get":
            ref, after, epoch, limit = rest
            request = (connection, ref)
            self.do(
                core.get(request, name, number, world.now, after=after, epoch=epoch, limit=limit)
            )
        elif kind == "ack":
            epoch, position = rest
            self.do(core.ack(name, number, epoch, position, world.now, connection=connection))
        elif kind == "subscribe":
            self._subscribe(core, connection, name, number)
        elif kind == "unsubscribe":
            self.call(
                lambda: world.cluster.unsubscribe(number),
                lambda _: core.unsubscribed(number, world.now),
                list,
            )

    def _subscribe(self, core: BrokerCore, connection: int, name: str, backend: int) -> None:
        world = self.world
        asked = core.moment

        def subscribed(one: Subscription) -> list[Effect]:
            if one.broker == self.name:
                return joined([one], one.id)
            if connection in self.connections:  # it is elsewhere, its subscriber is here
                bring_here(one.id)
            return []

        def bring_here(number: int) -> None:
            nonlocal asked
            asked = core.moment
            self.call(
                lambda: world.cluster.attach(name, self.name),
                lambda every: joined(every, number),
                list,
            )

        def joined(every: list[Subscription], number: int) -> list[Effect]:
            effects: list[Effect] = []
            for one in every:
                effects += core.subscribed(one, asked, world.now)
            told = {one.id: core.current(one) for one in every}.get(number)
            if told is not None:  # else it ended meanwhile
                world.to_client(connection, lambda client: client.subscribed(told))
            return effects

        self.call(lambda: world.cluster.subscribe(name, self.name, backend), subscribed, list)

    # -- effects ----------------------------------------------------------------------------------

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._do(effect)
        if self.lane is not None:
            self.lane.follow()
        if self.checker is not None:
            self.checker.check()

    def _fetch(self, core: BrokerCore, fetch: Fetch) -> None:
        def answered(answer: RangeAnswer | None) -> list[Effect]:
            if answer is None:
                return core.fetch_failed(fetch.fetch, self.world.now)
            return core.fetched(fetch.fetch, answer, self.world.now)

        if not fetch.ahead and self.lane is not None and self.lane.router.neighbours:
            self.lane.near(core, fetch, self._read, answered)
        else:
            self._read(fetch, answered)

    def _read(self, fetch: Fetch, answered: Answered) -> None:
        """From the store."""
        promise(
            not fetch.ahead or fetch.backend not in self.world.cluster.log.filters,
            f"{fetch} reads what routing brings",
        )
        self.call(
            lambda: self.world.cluster.read(fetch.backend, fetch.after, fetch.upto, fetch.limit),
            answered,
            lambda: answered(None),
        )

    def _do(self, effect: Effect) -> None:
        world, core = self.world, self.core
        assert core is not None
        match effect:
            case Fetch():
                self._fetch(core, effect)
            case AskNews(since):
                self.call(
                    lambda: world.cluster.news(self.name, since),
                    lambda told: core.news(told[0], told[1], told[2], world.now),
                    lambda: core.news_failed(world.now),
                )
            case StoreMarkers(markers):
                world.delivery.stored(markers)
                self.call(
                    lambda: world.cluster.put_markers(markers),
                    lambda unknown: core.markers_stored(unknown),
                    lambda: core.markers_failed(world.now),
                )
            case Signal(backend, _, head):
                reached = core.attachments.backends[backend].fetched
                promise(head <= reached, f"signalled {head} of {backend}, had {reached}")
                for connection in effect.connections:
                    world.to_client(connection, lambda c: c.signalled(effect))
            case SendInline():
                for connection in effect.connections:
                    world.to_client(connection, lambda c: c.sent_inline(effect))
            case Answer():
                connection, ref = effect.request
                world.to_client(connection, lambda c: c.answered(ref, effect))
            case Fail():
                world.to_client(effect.request[0], lambda c: world.retry(c, effect.request))
            case Acked(subscription, epoch, position, connections):
                for connection in connections:
                    world.to_client(
                        connection, lambda c: c.confirmed(subscription, epoch, position)
                    )
            case NotAcked():
                pass  # clients learn in other words that it is over, or served elsewhere
            case Ended(subscription, connections):
                for connection in connections:
                    world.to_client(connection, lambda c: c.ended(subscription))
            case CloseConnection(connection, moved_to):
                name = self.connections.pop(connection)
                promise(
                    moved_to is None or world.cluster.served.get(name) != connection,
                    f"{name} was closed as moved on the connection that serves it",
                )
                promise(
                    moved_to is not None or self.compared_at == world.now,
                    f"{name} was sent away and not told where to",
                )
                world.break_connection(connection, moved_to)
