"""A world whose cluster is the real one: publication log, store, runs, housekeeping and notices, on
a disk that loses what was not synced, with clocks that are set, and killed at any operation.

Which kinds of fault there are is drawn for each seed. In the end they cease, and without anybody
publishing or subscribing anew everything that was promised must be there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from tocsin.broker.machine.effects import ClusterCall, LoadSubscriptions
from tocsin.broker.machine.events import NewHead
from tocsin.cluster.broker_news import BrokerNews
from tocsin.errors import NotFound, Unavailable
from tocsin.model import Departure
from tocsin.spark.asking import Overlong
from tocsin.storage.log.segments.reader import list_segments
from tocsin.testing.simulation.broker import SimulatedBroker
from tocsin.testing.simulation.checkers import BrokenPromise, promise
from tocsin.testing.simulation.client import SimulatedClient
from tocsin.testing.simulation.cluster_process import ClusterProcess
from tocsin.testing.simulation.created import created
from tocsin.testing.simulation.disk import SimulatedDisk
from tocsin.testing.simulation.faults import FAULTS
from tocsin.testing.simulation.history import HistoryChecker
from tocsin.testing.simulation.memory import in_memory
from tocsin.testing.simulation.observed import ObservedCluster
from tocsin.testing.simulation.partitions import Partitions
from tocsin.testing.simulation.publishers import CLUSTER, PUBLISHERS, Publishers
from tocsin.testing.simulation.questions import INTERESTS, POISON, SparkIsGone
from tocsin.testing.simulation.world import World

KINDS = ("a", "b", "c")
HEALING_S = 120.0  # within which everything must have come true


class ClusterWorld(World):
    cluster: ObservedCluster

    def __init__(self, seed: int, policies: Sequence[str] = ()) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tocsin-simulation-", dir=in_memory()))
        super().__init__(seed, policies, channels=range(len(INTERESTS)))
        self.scale = 1.0
        self.closed = False
        draw = self.random
        count = draw.choice([1, 2, 3, len(FAULTS)])
        self.faults = set(draw.sample(FAULTS, count))
        if "restore" in self.faults:
            self.process.tidy_s = 60.0  # a backup of the store alone fits until records are stored
        self.partitions = Partitions(self.agenda, draw, self.happened)
        self.publishers = Publishers(
            self.process,
            self.agenda,
            draw,
            lambda: self._now("network"),
            self.delay_s,
            self.partitions.passes,
        )
        self.history = HistoryChecker(self.cluster, self.publishers)
        self.delivery.on_begin = lambda epoch: self.history.subscribed(epoch, self.now)

    def _new_cluster(self) -> ObservedCluster:
        self.happened = Counter[str]()  # faults, by kind
        self.disk = SimulatedDisk(self.random, self.happened)
        self.disk.fails = self._sync_failed
        self.process = ClusterProcess(self, self.directory, self.disk)
        return ObservedCluster(process=self.process)

    def _now(self, kind: str) -> bool:
        """Whether there are faults of that kind now."""
        return self.faulty and kind in self.faults

    def delay_s(self) -> float:
        slow = self._now("network") and self.random.random() < 0.1
        return self.random.expovariate(1.0 if slow else 20.0)

    # -- the network ------------------------------------------------------------------------------

    def _strikes(self, kind: str, probability: float) -> bool:
        """Whether this happens to a message now."""
        strikes = self._now("network") and self.random.random() < probability
        self.happened[kind] += strikes
        return strikes

    def _part(self) -> None:
        ways = [(broker.name, CLUSTER) for broker in self.brokers]
        ways += [(client.name, broker.name) for client, broker in self._pipes.values()]
        self.partitions.part([*ways, (PUBLISHERS, CLUSTER)])

    def open_at(self, connection: int, direction: str) -> float:
        ends = [end.name for end in self._pipes.get(connection, ())]
        return self.partitions.open_at(*ends[:: 1 if direction == "up" else -1]) if ends else 0.0

    def request_takes_s(self, broker: SimulatedBroker, call: ClusterCall) -> float:
        """A broker that loads may have to wait; somebody comes to it meanwhile, and is moved."""
        if not (isinstance(call, LoadSubscriptions) and self.faulty and self.random.random() < 0.5):
            return super().request_takes_s(broker, call)
        takes_s = self.random.expovariate(0.5)
        self.later(self.random.uniform(0.5, 1.0) * takes_s, lambda: self._somebody_leaves(broker))
        return takes_s

    def request_passes(self, broker: SimulatedBroker) -> bool:
        return self.partitions.passes(broker.name, CLUSTER) and super().request_passes(broker)

    def answer_passes(self, broker: SimulatedBroker) -> bool:
        return self.partitions.passes(CLUSTER, broker.name) and super().answer_passes(broker)

    def request_is_repeated(self) -> bool:
        return self._strikes("repeated request", 0.05)

    def to_broker(self, client: SimulatedClient, frame: tuple[Any, ...]) -> None:
        """A request of its own, as clients may send them by HTTP, comes twice and out of turn."""
        super().to_broker(client, frame)
        connection = client.connection
        if connection is not None and self._strikes("repeated frame", 0.05):

            def arrive() -> None:
                pipe = self._pipes.get(connection)
                if pipe is not None:
                    pipe[1].receive(connection, frame)

            self.later(self.delay_s() * self.random.choice([0.1, 3]), arrive)

    # -- what the cluster is in -------------------------------------------------------------------

    def committed(self) -> None:
        self.cluster.look()

    def cluster_died(self) -> None:
        self.cluster.lost_sight()
        if not self.closed:
            self.later(self.random.random() * 2.0, self.process.start)

    def notify(
        self, news: BrokerNews, store_id: str, heads: list[NewHead], gone: list[Departure]
    ) -> None:
        (target,) = [known for known in self.brokers if known.name == news.name]
        number = news.next_number()
        if self._strikes("lost notice", 0.25) or not self.partitions.passes(CLUSTER, news.name):
            return

        def arrive() -> None:
            answer = target.notice(store_id, heads, gone, number)
            if answer is not None and self.partitions.passes(news.name, CLUSTER):
                self.later(self.delay_s(), lambda: news.answered(*answer))

        for _ in range(2 if self._strikes("repeated notice", 0.3) else 1):
            late = 10 if self._strikes("late notice", 0.3) else 1
            self.later(self.delay_s() * late, arrive)

    def query_s(self) -> float:
        if self._now("spark"):
            draw = self.random.random()
            if draw < 0.1:
                self.happened["Spark gone"] += 1
                raise SparkIsGone("Spark's Java process does not answer")
            if draw < 0.15:
                self.happened["overlong query"] += 1
                raise Overlong("it took longer than it may")
        slow = self.faulty and self.random.random() < 0.2
        takes_s = self.random.expovariate(0.5 if slow else 10.0)
        if self.faulty and self.random.random() < 0.3:
            self.later(self.random.random() * takes_s, self._somebody_comes)
        return takes_s

    def _somebody_comes(self) -> None:
        """Who asks what nobody asks yet, while a query is under way."""
        cluster = self.cluster
        asked = [cluster.interests[backend.epoch] for backend in cluster.backends.values()]
        fresh = [number for number in self.backends if INTERESTS[number] not in asked]
        if fresh and not self.closed:
            client = self.random.choice(self.clients)
            self.to_broker(client, ("subscribe", self.random.choice(fresh)))

    def _somebody_leaves(self, broker: SimulatedBroker) -> None:
        """Who has come to that broker."""
        frontends, came = self.cluster.frontends.values(), self.cluster.served
        here = [f.id for f in frontends if f.broker == broker.name and f.subscriber in came]
        others = [other.name for other in self.brokers if other is not broker]
        if here and not self.closed:
            self._move(self.random.choice(here), self.random.choice(others))

    def _move(self, subscription: int, broker: str) -> None:
        """By a statement."""
        with suppress(NotFound, Unavailable):  # it has just ended; the cluster is down
            self.cluster.move(subscription, broker)

    # -- what happens -----------------------------------------------------------------------------

    def publish(self, backend: int) -> None:
        records = []
        for _ in range(self.random.choice([1, 1, 2, 5])):
            who = POISON if self.random.random() < 0.02 else self.random.randrange(4)
            records.append({"id": 0, "kind": self.random.choice(KINDS), "who": who})
        self.publishers.publish("reports", records)

    def _move_user(self) -> None:
        record = {"who": self.random.randrange(4), "place": self.random.randrange(100)}
        self.publishers.publish("users", [record])

    def happen(self) -> None:
        draw, choose = self.random.random(), self.random.choice
        client, broker = choose(self.clients), choose(self.brokers)
        with suppress(Unavailable):  # the cluster is down: whoever asked knows
            if draw < 0.45:
                self.publish(0)
            elif draw < 0.60:
                self._move_user()
            elif draw < 0.75:
                self._subscribers_act(client, broker)
            else:
                self._break_something(client, broker)

    def _subscribers_act(self, client: SimulatedClient, broker: SimulatedBroker) -> None:
        draw, choose = self.random.random(), self.random.choice
        if draw < 0.4:
            self.to_broker(client, ("subscribe", choose(self.backends)))
        elif draw < 0.65 and client.feeds:
            number = choose(client.subscriptions)
            client.forget(number)
            self.to_broker(client, ("unsubscribe", number))
        elif draw < 0.75 and self.cluster.frontends:
            self._move(choose(sorted(self.cluster.frontends)), broker.name)
        elif draw < 0.85:
            client.stalled = not client.stalled
            client.go_on()
        elif client.connection is not None:
            self.break_connection(client.connection)

    def _break_something(self, client: SimulatedClient, broker: SimulatedBroker) -> None:
        choose, random = self.random.choice, self.random
        kind = choose(sorted(self.faults))
        process, disk = self.process, self.disk
        if kind in ("crash", "power"):
            draw = random.random()
            if draw < 0.3 and process.alive:
                self.happened["crash"] += 1
                process.fall(power=kind == "power")
            elif draw < 0.5:
                disk.crash_in = random.randrange(15)
            elif draw < 0.85:
                disk.dies_writing = True
            else:
                process.crash_at_commit = random.randrange(5)
        elif kind == "disk":
            draw = random.random()
            if draw < 0.4:
                disk.room = random.randrange(500)
                process.store_full = random.random() < 0.5
                self.later(random.expovariate(0.5), self._make_room)
            elif draw < 0.75:
                disk.failing_syncs = random.choice([1, 1, 3])
            else:
                disk.slow_s = random.choice([0.0, 0.3, 1.5])
        elif kind == "network":
            self._part()
        elif kind == "clock":
            self.happened["clock step"] += 1
            process.skew_s += random.choice([-3600.0, -2.0, -0.5, 0.5, 2.0, 60.0])
        elif kind == "brokers" and broker.machine is not None:
            self.happened["broker crash"] += 1
            broker.crash()
            self.later(random.random(), broker.start)
        elif kind == "rot" and process.alive:
            self._rot()
        elif kind == "restore" and process.alive:
            self._back_up_or_restore()

    def _back_up_or_restore(self) -> None:
        """The store is put back to where it was, its log and its files stay."""
        if self.process.restore():
            self.happened["restored store"] += 1
            self.cluster.restored()
        else:
            self.process.back_up()

    def _sync_failed(self) -> None:
        if self.random.random() < 0.7:
            self.later(self.random.expovariate(1.0), self._reset)

    def _reset(self) -> None:
        """The machine, by an operator who reads of input and output errors."""
        if self._now("disk") and self.process.alive:
            self.process.fall(power=True)

    def _make_room(self) -> None:
        self.disk.room, self.process.store_full = None, False

    def _rot(self) -> None:
        """A bit of the log is flipped; it is read again after a restart at the latest."""
        segments = [
            (first, path)
            for first, path in list_segments(self.directory / "log", "reports")
            if path.stat().st_size > 0
        ]
        if segments:
            self.process.fall(power=False)
            first, path = self.random.choice(segments)
            self.history.flipped.append(first + self.disk.flip_bit(path))

    # -- the course of it -------------------------------------------------------------------------

    def run(self, happenings: int) -> None:
        try:
            with capture_logs():
                self._run(happenings)
        finally:
            self.closed = True
            if self.process.alive:
                self.process.fall(power=False)
            shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, happenings: int) -> None:
        faulty, self.faulty = self.faulty, False
        self.process.create(created())
        self.cluster.look()
        for broker in self.brokers:
            broker.start()
        for user in range(4):
            self.publishers.publish("users", [{"who": user, "place": 0}])
        self.run_until(1.0)
        for client in self.clients:
            self.connect(client)
            for interest in self.random.sample(self.backends, 1):
                self.later(0.5, lambda c=client, i=interest: self.to_broker(c, ("subscribe", i)))  # type: ignore[misc]
        self.run_until(2.0)
        self.faulty = faulty
        if self._now("restore"):
            self.process.back_up()
        if self._now("disk"):
            self.disk.slow_s = self.random.choice([0.0, 0.3])
        for _ in range(happenings):
            self.run_until(self.now + self.random.expovariate(5.0))
            self.happen()
        self.quieten()

    def quieten(self) -> None:
        """No more faults, and nobody publishes or subscribes: what was promised comes true."""
        self._raise_broken()
        self.faulty = False
        self.partitions.heal()
        self._make_room()
        self.disk.slow_s, self.disk.failing_syncs = 0.0, 0
        self.disk.crash_in, self.disk.dies_writing = None, False
        self.process.crash_at_commit = None
        for client in self.clients:
            client.stalled = False
            client.go_on()
        until = self.now + HEALING_S
        while self.now < until:
            self.run_until(self.now + 3.0)
            for client in self.clients:
                client.acknowledge_all()
            with suppress(BrokenPromise):  # not yet
                self._check_all()
                return
        self._check_all()

    def _raise_broken(self) -> None:
        if self.process.broken is not None:
            raise self.process.broken

    def _check_all(self) -> None:
        self._raise_broken()
        promise(self.process.alive, "the cluster did not come back")
        self.cluster.look()
        for request in self.publishers.requests:
            promise(request.place is not None, f"{request} was never taken")
        self.history.check()
        self.in_step.check(self.brokers)
        for client in self.clients:
            connected = client.connection is not None and client.connection in self._pipes
            promise(connected, f"{client.name} is not connected")
            assert client.connection is not None
            broker = self._pipes[client.connection][1].name
            for feed in client.feeds:
                self.delivery.everything_delivered(client.name, feed.subscription, broker)
