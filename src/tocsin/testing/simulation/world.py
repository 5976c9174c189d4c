"""A whole system in one process and virtual time: cluster, two brokers, clients, a bad network.

Everything random comes from one seed, so that a failing run can be run again exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tocsin.broker.machine.effects import CloseStream, ClusterCall, OpenStream, PageEffect
from tocsin.broker.machine.events import NewHead
from tocsin.model import Departure
from tocsin.overlay.routing import Relink, Send
from tocsin.policies import parse_policy, policy_names
from tocsin.testing.simulation.agenda import Action, Agenda
from tocsin.testing.simulation.broker import SimulatedBroker
from tocsin.testing.simulation.checkers import DeliveryChecker, StepChecker, promise
from tocsin.testing.simulation.client import SimulatedClient
from tocsin.testing.simulation.model_cluster import ModelCluster

CHANNELS = range(4)


class World:
    """`channels` and `backends`: backend subscriptions that there may be, those with a channel's
    results and all."""

    def __init__(
        self,
        seed: int,
        policies: Sequence[str] = (),
        *,
        names: Sequence[str] = ("east", "west"),
        channels: Sequence[int] = CHANNELS,
        filters: Sequence[int] = (),
    ) -> None:
        combined = ["evict=lru expire=ttl", "evict=lsc expire=ttl"]
        self.policies = list(policies) or [*policy_names(), *combined]
        self.random = random.Random(seed)
        self.wire = random.Random(f"{seed}: frames of clients")
        self.agenda = Agenda()
        self.later = self.agenda.later
        self.run_until = self.agenda.run
        self.scale = self.random.choice([1.0, 1.0, 30.0])  # long runs reach TTL's re-estimation
        self.budget_bytes = self.random.choice([0, 60, 200, 1000])
        self.faulty = True
        self.moves = 0  # clients that followed to another broker
        self.fills = 0  # ranges of the log that were asked for
        self.comparisons = 0  # of everything, by brokers with the cluster
        self.restarts = 0  # of brokers that found another store
        self.batches = 0  # frames with several words to a client
        # By broker, its arrival and incarnation: the connection that an attach is for.
        self.arriving: dict[tuple[str, int, int], int] = {}
        self.cluster = self._new_cluster()
        self.delivery = DeliveryChecker(self.cluster)
        self.in_step = StepChecker(self.cluster)
        self._connections = 0
        self._pipes: dict[int, tuple[SimulatedClient, SimulatedBroker]] = {}
        self._arrivals: dict[tuple[int, str], float] = {}  # frames of a connection stay in order
        self.channels, self.backends = list(channels), [*channels, *filters]
        self.brokers = [SimulatedBroker(self, name) for name in names]
        self.clients = [self._client(f"client-{n}") for n in range(self.random.randint(1, 5))]

    def _new_cluster(self) -> ModelCluster:
        return ModelCluster()

    def _client(self, name: str) -> SimulatedClient:
        inline = self.random.random() < 0.7
        gathers = self.wire.random() < 0.7
        prefetch = self.random.choice([1, 3, 1000])
        client = SimulatedClient(
            name,
            inline,
            prefetch,
            self.delivery,
            lambda frame: self.to_broker(client, frame),
            lambda: not self.faulty or self.random.random() < 0.6,
            self.defer if gathers else None,
        )
        return client

    def defer(self, action: Action) -> None:
        self.later(self.wire.expovariate(20.0) * self.scale, action)

    @property
    def delivered(self) -> int:
        return self.delivery.count

    @property
    def gaps(self) -> int:
        return self.delivery.gaps

    # -- time and network ---------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.agenda.now

    def delay_s(self) -> float:
        slow = self.faulty and self.random.random() < 0.1
        return self.random.expovariate(1.0 if slow else 20.0) * self.scale

    def _in_order(self, connection: int, direction: str, action: Action) -> None:
        sent = self.now + self.delay_s()
        at = max(
            self._arrivals.get((connection, direction), 0.0),
            self.open_at(connection, direction),
            sent,
        )
        self._arrivals[connection, direction] = at
        self.agenda.at(at, action)

    def open_at(self, connection: int, direction: str) -> float:
        """When a connection carries something again."""
        return 0.0

    def request_takes_s(self, broker: SimulatedBroker, call: ClusterCall) -> float:
        """Until the cluster does what it is asked."""
        return self.delay_s()

    def request_passes(self, broker: SimulatedBroker) -> bool:
        """Whether the cluster is reached by it now."""
        return not self.faulty or self.random.random() > 0.05

    def answer_passes(self, broker: SimulatedBroker) -> bool:
        return not self.faulty or self.random.random() > 0.05

    def request_is_repeated(self) -> bool:
        """On the way to the cluster, so that it arrives twice."""
        return False

    def to_client(self, connection: int, action: Callable[[SimulatedClient], None]) -> None:
        def arrive() -> None:
            pipe = self._pipes.get(connection)
            if pipe is not None and pipe[0].connection == connection:
                action(pipe[0])

        self._in_order(connection, "down", arrive)

    def say(self, connection: int, words: Sequence[Callable[[SimulatedClient], None]]) -> None:
        """What a broker has for a client at one moment: in one frame, if it takes that."""
        pipe = self._pipes.get(connection)
        if pipe is not None and pipe[0].batch and len(words) > 1:
            self.batches += 1
            self.to_client(connection, lambda client: client.hear(words))
            return
        for word in words:
            self.to_client(connection, word)

    def more_may_come(self, connection: int) -> bool:
        """Whether what a broker has for a client waits for what comes next."""
        pipe = self._pipes.get(connection)
        return pipe is not None and pipe[0].batch and self.wire.random() < 0.3

    def falls_behind(self) -> bool:
        """Whether a client reads too slowly at this moment to be sent results inline."""
        return self.faulty and self.wire.random() < 0.1

    def to_broker(self, client: SimulatedClient, frame: tuple[Any, ...]) -> None:
        connection = client.connection
        if connection is None:
            return

        # What is said of markers may be said twice, and once more after a reconnection.
        says_markers = frame[0] in ("ack", "ack_many")
        times = 1 + (self.faulty and says_markers and self.wire.random() < 0.1)

        def arrive() -> None:
            for _ in range(times):
                pipe = self._pipes.get(connection)
                if pipe is not None:
                    pipe[1].receive(connection, frame)

        self._in_order(connection, "up", arrive)

    def connect(self, client: SimulatedClient, follow: str | None = None) -> None:
        """To the broker that it was moved to, or to any."""
        if client.connection is not None:
            return
        self._connections += 1
        connection = client.connection = self._connections
        broker = self.random.choice([b for b in self.brokers if follow in (None, b.name)])
        self.moves += follow is not None
        self._pipes[connection] = (client, broker)
        self._in_order(connection, "up", lambda: broker.accept(connection, client))

    def break_connection(self, connection: int, moved_to: str | None = None) -> None:
        """The client notices after a while, the broker perhaps later."""
        pipe = self._pipes.pop(connection, None)
        if pipe is None:
            return
        client, broker = pipe

        def noticed() -> None:
            if client.connection == connection:
                client.connection = None
                self.later(self.delay_s(), lambda: self.connect(client, moved_to))

        self.later(self.delay_s(), noticed)
        incarnation = broker.incarnation

        def hang_up() -> None:
            if broker.incarnation == incarnation:
                broker.hang_up(connection)

        self.later(self.delay_s() * 3, hang_up)

    def ask_again(self, client: SimulatedClient, frame: tuple[Any, ...]) -> None:
        """It was told that nobody knows whether it was done."""
        self.later(0.5 * self.scale, lambda: self.to_broker(client, frame))

    def retry(self, client: SimulatedClient, request: tuple[int, int]) -> None:
        connection, ref = request

        def again() -> None:
            if client.connection == connection:
                client.failed(ref)

        self.later(0.5 * self.scale, again)

    # -- what happens -----------------------------------------------------------------------------

    def began(self, broker: SimulatedBroker) -> None:
        """A broker's process has begun."""

    def restarted(self, broker: SimulatedBroker) -> None:
        """It found another store, and began anew."""
        self.restarts += 1

    def died(self, broker: SimulatedBroker) -> None:
        """It is no more."""

    def overlay_effect(
        self, broker: SimulatedBroker, effect: OpenStream | CloseStream | Send | Relink
    ) -> None:
        raise AssertionError(f"{broker.name} has no overlay: {effect}")

    def page_effect(self, broker: SimulatedBroker, effect: PageEffect) -> None:
        raise AssertionError(f"no result mentions a page, and nobody asks for one: {effect}")

    def page_cache(self) -> tuple[str, int]:
        """Policy and capacity of a broker's page cache."""
        return "none", 0

    def stepped(self, broker: SimulatedBroker) -> None:
        """It carried effects out."""

    def replace_store(self) -> None:
        self.cluster.replace_store()

    def publish(self, backend: int) -> None:
        for _ in range(self.random.choice([1, 1, 1, 2, 6])):
            self.cluster.publish(backend, self.now, self.payload())
        self.send_notices(backend, [])

    def payload(self) -> bytes:
        size = self.random.choice([5, 20, 60, 300])
        return self.random.randbytes(4) * (size // 4)

    def send_notices(self, backend: int, detached: list[Departure]) -> None:
        stored, store_id = self.cluster.backends.get(backend), self.cluster.store_id
        heads = []
        if stored is not None:
            pushed = self.random.choice([0, 0, 1, 3])
            first = max(stored.floor, stored.head - pushed)
            results = [
                self.cluster.history[stored.epoch, p] for p in range(first + 1, stored.head + 1)
            ]
            heads = [NewHead(backend, stored.epoch, stored.head, results)]
        for broker in self.brokers:
            if not detached and broker.name not in self.cluster.brokers_of(backend):
                continue
            for _ in range(self.random.choice([0, 1, 1, 1, 2]) if self.faulty else 1):
                self.later(
                    self.delay_s() * self.random.choice([1, 1, 10]),
                    lambda b=broker: b.notice(store_id, heads, detached),  # type: ignore[misc]
                )

    def end(self, subscription: int) -> None:
        """By a statement: UNSUBSCRIBE."""
        backend = self.cluster.frontends[subscription].backend
        self.cluster.unsubscribe(subscription)
        self.send_notices(backend, [self.cluster.departure(subscription)])

    def move(self, subscription: int, broker: str) -> None:
        """By a statement: CHANGE SUBSCRIPTION."""
        backend = self.cluster.frontends[subscription].backend
        self.cluster.move(subscription, broker)
        self.send_notices(backend, [self.cluster.departure(subscription)])

    def forget(self, broker: str) -> None:
        """The cluster forgets a broker; sometimes everything."""
        if self.random.random() < 0.5:
            self.cluster.registered.discard(broker)
        else:
            self.replace_store()

    def happen(self) -> None:
        """One random thing."""
        draw, choose = self.random.random(), self.random.choice
        client, broker = choose(self.clients), choose(self.brokers)
        backend, channel = choose(self.backends), choose(self.channels)
        if draw < 0.48:
            self.publish(channel)
        elif not self._people_act(draw, client, broker, backend):
            self._system_acts(draw, client, broker, backend, channel)

    def _people_act(
        self, draw: float, client: SimulatedClient, broker: SimulatedBroker, backend: int
    ) -> bool:
        """Statements and connections of subscribers; false if it is none of their draws."""
        choose = self.random.choice
        if draw < 0.51 and self.cluster.frontends:
            self.end(choose(sorted(self.cluster.frontends)))
        elif draw < 0.54 and self.cluster.frontends:
            self.move(choose(sorted(self.cluster.frontends)), broker.name)
        elif draw < 0.55 and broker.machine is not None and broker.ready:
            broker.do(broker.machine.compare(self.now))
        elif draw < 0.56:  # by a statement: SUBSCRIBE … ON
            self.cluster.subscribe(client.name, broker.name, backend)
        elif draw < 0.60:
            self.to_broker(client, ("subscribe", backend))
        elif draw < 0.63 and client.feeds:
            number = choose(client.subscriptions)
            client.forget(number)
            self.to_broker(client, ("unsubscribe", number))
        elif draw < 0.78 and client.connection is not None:
            self.break_connection(client.connection)
        else:
            return False
        return True

    def _system_acts(
        self,
        draw: float,
        client: SimulatedClient,
        broker: SimulatedBroker,
        backend: int,
        channel: int,
    ) -> None:
        """Crashes, retention, settings and rumours; and what a client's machine does."""
        choose = self.random.choice
        if draw < 0.83:
            if broker.machine is not None:
                broker.crash()
                self.later(self.random.random() * self.scale, broker.start)
        elif draw < 0.88:
            self.cluster.retire(channel, self.random.choice([0, 1, 3]))
        elif draw < 0.90:
            self.cluster.remake(channel)
            self.send_notices(channel, [])
        elif draw < 0.94 and broker.machine is not None:
            policy = parse_policy(choose(self.policies))
            broker.do(broker.machine.set_policy(policy, self.now))
        elif draw < 0.95:
            self.forget(broker.name)
        elif draw < 0.97:  # a rumour: only news are believed
            chosen = sorted(self.cluster.frontends)[:3]
            self.send_notices(backend, [Departure(n, choose([None, broker.name])) for n in chosen])
        elif draw < 0.99:
            client.stalled = not client.stalled
            client.go_on()
        elif client.connection is not None:
            client.restart()
            self.break_connection(client.connection)

    def run(self, happenings: int) -> None:
        for broker in self.brokers:
            broker.start()
        for client in self.clients:
            for backend in self.random.sample(self.backends, 2):
                self.cluster.subscribe(client.name, self.random.choice(self.brokers).name, backend)
        self.run_until(1.0 * self.scale)
        for client in self.clients:
            self.connect(client)
        for _ in range(happenings):
            self.run_until(self.now + self.random.expovariate(5.0) * self.scale)
            self.happen()
        self.quieten()

    def quieten(self) -> None:
        """No more faults; whatever was promised must have come true in the end."""
        self.faulty = False
        self.run_until(self.now + 20 * self.scale)
        for client in self.clients:
            client.stalled = False
            client.go_on()
            if client.connection is None:
                self.connect(client)
            for backend in self.backends:
                self.to_broker(client, ("subscribe", backend))
        self.run_until(self.now + 5 * self.scale)
        for client in self.clients:  # some are behind when the last results come
            client.stalled = self.wire.random() < 0.3
        self.publish_everywhere()
        self.run_until(self.now + 10 * self.scale)
        for client in self.clients:
            client.stalled = False
            client.go_on()
        for _ in range(20):  # one with room for a single result needs its time
            asked = [client.asked for client in self.clients]
            self.run_until(self.now + 5 * self.scale)
            if asked == [client.asked for client in self.clients]:
                break
        else:
            promise(False, "gets without end")
        self.check()

    def publish_everywhere(self) -> None:
        for channel in self.channels:
            self.publish(channel)

    def check(self) -> None:
        self.in_step.check(self.brokers)
        for client in self.clients:
            heard = sorted(feed.backend for feed in client.feeds)
            promise(heard == self.backends, f"{client.name} asked for all, has {heard}")
            assert client.connection is not None
            broker = self._pipes[client.connection][1].name
            for feed in client.feeds:
                self.delivery.everything_delivered(client.name, feed.subscription, broker)
                promise(feed.settled, f"{client.name}: not all acknowledgements were confirmed")
