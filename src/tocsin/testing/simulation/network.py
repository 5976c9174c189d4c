"""A world with an overlay: brokers in a tree that route records by filters, beside channels.

Links break, brokers die and return, the coordinator tells each of it at another time and moves the
entry of records; their stream breaks, the cluster goes away and comes back, the log forgets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from msgspec import convert

from tocsin.broker.machine import BrokerMachine
from tocsin.broker.machine.effects import CloseStream, Effect, OpenStream
from tocsin.broker.machine.events import Entered, Passed, Published, StreamLine
from tocsin.errors import Unavailable
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Message, Relink, ResultsFound, ResultsWanted, Send
from tocsin.overlay.topology import Tree, tree_of
from tocsin.testing.simulation.broker import SimulatedBroker
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.coordinator import ModelCoordinator
from tocsin.testing.simulation.mesh import Mesh, fresh
from tocsin.testing.simulation.model_log import KINDS, LEVELS, QUESTIONS
from tocsin.testing.simulation.world import World

CHANNELS = range(2)
FILTERS = 100
"""The first number of a filter's backend subscription."""


class Stream:
    """What the cluster tells one reader of its records: in order, until it breaks."""

    def __init__(self, world: NetworkWorld, broker: SimulatedBroker, call: int) -> None:
        self.broker = broker
        self.incarnation = broker.incarnation
        self.call = call
        self.opened = False
        self._world = world
        self._latest = 0.0

    def say(self, line: StreamLine) -> None:
        world = self._world
        self._latest = max(self._latest, world.now + world.delay_s())

        def arrive() -> None:
            machine = self.broker.machine
            if world._is_open(self) and machine is not None:
                self.broker.do(machine.streamed(self.call, line, world.now))

        world.agenda.at(self._latest, arrive)


class _End:
    """A broker's end of its links."""

    def __init__(self, world: NetworkWorld, machine: BrokerMachine) -> None:
        self._world = world
        self._machine = machine

    def linked(self, neighbour: str, incarnation: int) -> list[Effect]:
        return self._machine.linked(neighbour, incarnation, self._world.now)

    def unlinked(self, neighbour: str, incarnation: int) -> list[Effect]:
        return self._machine.unlinked(neighbour, incarnation, self._world.now)

    def heard(
        self, neighbour: str, incarnation: int, sequence: int, message: Message
    ) -> list[Effect]:
        return self._machine.heard(neighbour, incarnation, sequence, message, self._world.now)


class NetworkWorld(World):
    def __init__(self, seed: int, policies: Sequence[str] = ()) -> None:
        chance = random.Random(seed)
        tree = _grown(chance)
        asked = chance.sample(range(len(QUESTIONS)), 4)
        filters = {FILTERS + number: QUESTIONS[number] for number in sorted(asked)}
        super().__init__(
            seed, policies, names=tree.brokers, channels=CHANNELS, filters=list(filters)
        )
        self.cluster.log.filters = filters
        self.dataset = self.cluster.log.dataset
        self.mesh = Mesh(self.agenda, self.random, self.delay_s, self._do_at)
        self.mesh.store_of = self._store_of
        order = list(tree.brokers)
        self.coordinator = ModelCoordinator(tree, 3 * self.scale, order)
        self.from_neighbours = 0  # results that brokers gave to each other
        self._streams: dict[SimulatedBroker, Stream] = {}
        self._brokers = {broker.name: broker for broker in self.brokers}
        # By asker, incarnation of the link and number: what a neighbour was asked for.
        self._wanted: dict[tuple[str, int, int], ResultsWanted] = {}

    # -- brokers ----------------------------------------------------------------------------------

    def began(self, broker: SimulatedBroker) -> None:
        machine = broker.machine
        assert machine is not None
        self.mesh.join(broker.name, machine.router, _End(self, machine))
        self._beat(broker, broker.incarnation)

    def restarted(self, broker: SimulatedBroker) -> None:
        super().restarted(broker)
        assert broker.machine is not None
        self.mesh.routers[broker.name] = broker.machine.router

    def died(self, broker: SimulatedBroker) -> None:
        self._streams.pop(broker, None)
        self.mesh.leave(broker.name)

    def _store_of(self, name: str) -> str | None:
        machine = self._brokers[name].machine
        return None if machine is None else machine.store_id

    def _do_at(self, name: str, effects: list[Effect]) -> None:
        broker = self._brokers[name]
        if broker.machine is not None:
            broker.do(effects)

    def _beat(self, broker: SimulatedBroker, incarnation: int) -> None:
        """A heartbeat; its answer tells the tree."""
        lost = self.faulty and self.random.random() < 0.1

        def lives() -> bool:
            return broker.machine is not None and broker.incarnation == incarnation

        def answered(entry: str, neighbours: list[str]) -> None:
            if lives() and not lost:
                assert broker.machine is not None
                self.mesh.learn(broker.name, neighbours)
                broker.do(broker.machine.assigned(entry, self.now))

        def arrive() -> None:
            if lives():
                answer = self.coordinator.heartbeat(broker.name, self.now)
                self.later(self.delay_s(), lambda: answered(*answer))
                self.later(self.scale, lambda: self._beat(broker, incarnation))

        self.later(self.delay_s(), arrive)

    def overlay_effect(
        self, broker: SimulatedBroker, effect: OpenStream | CloseStream | Send | Relink
    ) -> None:
        match effect:
            case OpenStream(call):
                stream = self._streams[broker] = Stream(self, broker, call)
                self.later(self.delay_s(), lambda: self._open(stream))
            case CloseStream():
                self._streams.pop(broker, None)
            case Send():
                self._check_sent(broker.name, effect)
                self.mesh.send(broker.name, effect)
            case Relink():
                self.mesh.relink(broker.name, effect)

    def _check_sent(self, sender: str, sent: Send) -> None:
        """What a broker tells of its result cache is what there is."""
        message = sent.message
        if isinstance(message, ResultsWanted):
            self._wanted[sender, sent.incarnation, message.question] = message
        elif isinstance(message, ResultsFound) and message.results:
            wanted = self._wanted[sent.neighbour, sent.incarnation, message.question]
            there = self.cluster.results(wanted.backend, wanted.epoch, message.after, message.upto)
            rows = [(row.position, row.created_at, row.payload) for row in there]
            shared = [(position, at, bytes(value)) for position, at, value in message.results]
            promise(shared == rows, f"{sender} has {shared} of {wanted}, the store {rows}")
            self.from_neighbours += len(rows)

    # -- the stream of records --------------------------------------------------------------------

    def _is_open(self, stream: Stream) -> bool:
        return self._streams.get(stream.broker) is stream

    def _open(self, stream: Stream) -> None:
        if not self._is_open(stream):
            return
        if self.cluster.down or stream.broker.name not in self.cluster.registered:
            self._broke(stream)
            return
        stream.opened = True
        stream.say(Entered(self.dataset, self.cluster.log.head))

    def _broke(self, stream: Stream) -> None:
        del self._streams[stream.broker]
        broker, incarnation = stream.broker, stream.incarnation

        def noticed() -> None:
            if broker.machine is not None and broker.incarnation == incarnation:
                error = Unavailable("the stream broke")
                broker.do(broker.machine.failed(stream.call, error, self.now))

        self.later(self.delay_s(), noticed)

    def _pass(self) -> None:
        """Now and then the stream tells that there was nothing more."""
        self._say(Passed(self.dataset, self.cluster.log.head))
        self.later(self.scale, self._pass)

    def _say(self, line: StreamLine) -> None:
        for stream in self._streams.values():
            if stream.opened:
                stream.say(line)

    def append(self, record: dict[str, Any]) -> None:
        log = self.cluster.log
        after = log.head
        publication = log.append(record, self.random.choice([1, 1, 2, 5]), self.now)
        self._say(Published(publication, after))

    def replace_store(self) -> None:
        super().replace_store()
        for stream in list(self._streams.values()):
            self._broke(stream)

    # -- what happens -----------------------------------------------------------------------------

    def happen(self) -> None:
        draw, choose = self.random.random(), self.random.choice
        if self.cluster.down:
            if draw < 0.5:
                self.cluster.down = False
            elif draw < 0.7:
                self.mesh.cut()
        elif draw < 0.45:
            super().happen()
        elif draw < 0.80:
            for _ in range(choose([1, 1, 2, 6])):
                self.append({"kind": choose(KINDS), "level": choose(LEVELS)})
        elif draw < 0.85:
            self.mesh.cut()
        elif draw < 0.87:
            self.mesh.stall(choose([0.5, 2.0]) * self.scale)
        elif draw < 0.91:
            self.cluster.log.retire(choose([0, 1, 3, 10]))
        elif draw < 0.94 and self._streams:
            self._broke(choose(list(self._streams.values())))
        elif draw < 0.96:
            self.random.shuffle(self.coordinator.order)
        elif draw < 0.98:
            self.coordinator.forget()
        else:
            self.cluster.down = True
            for stream in list(self._streams.values()):
                self._broke(stream)

    def run(self, happenings: int) -> None:
        self._pass()
        super().run(happenings)

    # -- what must hold in the end ----------------------------------------------------------------

    def quieten(self) -> None:
        self.cluster.down = False
        self.mesh.faulty = False
        super().quieten()
        fills = self.fills
        self.publish_everywhere()
        self.run_until(self.now + 10 * self.scale)
        promise(self.fills == fills, "the log was read though all is linked")
        self.check()

    def publish_everywhere(self) -> None:
        super().publish_everywhere()
        for kind in KINDS:
            self.append({"kind": kind, "level": 4})
        self.append({"kind": "a", "level": 7})

    def check(self) -> None:
        super().check()
        tree = self.coordinator.base
        promise(set(self.mesh.connections) == set(tree.links), "not all links are there")
        served: dict[str, list[Filter]] = {}
        for broker in self.brokers:
            assert broker.machine is not None
            backends = broker.machine.core.table.filters.values()
            served[broker.name] = [convert(backend.filter, Filter) for backend in backends]
        there, anew = self.mesh.tables(self.dataset), fresh(tree, served).tables(self.dataset)
        promise(there == anew, f"tables {there} are not those of a fresh start: {anew}")


def _grown(chance: random.Random) -> Tree:
    """Any tree: each broker is linked with an earlier one."""
    names = [f"broker-{number}" for number in range(chance.randint(3, 7))]
    links = [(names[chance.randrange(at)], names[at]) for at in range(1, len(names))]
    return tree_of(names, links)
