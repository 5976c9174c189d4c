"""A world with an overlay: brokers in a tree that route records by filters, beside channels.

Links break, brokers die and return, the coordinator tells each of it at another time and moves the
entry of records; their stream breaks, the cluster goes away and comes back, the log forgets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from msgspec import convert

from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Effect as Told
from tocsin.overlay.routing import Publication, Router
from tocsin.overlay.topology import Tree, tree_of
from tocsin.simulation.broker import SimulatedBroker
from tocsin.simulation.checkers import promise
from tocsin.simulation.coordinator import ModelCoordinator
from tocsin.simulation.lane import SimulatedLane, Stream
from tocsin.simulation.mesh import Mesh, fresh
from tocsin.simulation.model_log import KINDS, LEVELS, QUESTIONS
from tocsin.simulation.world import World

CHANNELS = range(2)
FILTERS = 100
"""The first number of a filter's backend subscription."""


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
        self.mesh = Mesh(self.agenda, self.random, self.delay_s, self._told)
        order = list(tree.brokers)
        self.coordinator = ModelCoordinator(tree, 3 * self.scale, order)
        self.fills = self.near = 0
        self._streams: dict[Stream, SimulatedLane] = {}
        self._last = {broker.name: broker for broker in self.brokers}

    # -- brokers ----------------------------------------------------------------------------------

    def began(self, broker: SimulatedBroker) -> None:
        broker.lane = SimulatedLane(self, broker)
        self.mesh.join(broker.name, broker.lane.router)
        broker.lane.beat()

    def died(self, broker: SimulatedBroker) -> None:
        self.mesh.leave(broker.name)

    def _told(self, name: str, told: list[Told]) -> None:
        lane = self._last[name].lane
        if lane is not None:
            lane.do(told)

    # -- the stream of records --------------------------------------------------------------------

    def open(self, stream: Stream) -> None:
        if self.cluster.down:
            self._broke(stream)
            return
        self._streams[stream] = stream.lane
        end = self.cluster.log.head
        stream.say(lambda router: router.entered(self.dataset, end))

    def _broke(self, stream: Stream) -> None:
        stream.broken = True
        self._streams.pop(stream, None)
        self.later(self.delay_s(), lambda: stream.lane.broke(stream))

    def _pass(self) -> None:
        """Now and then the stream tells that there was nothing more."""
        end = self.cluster.log.head
        for stream in self._streams:
            stream.say(lambda router: router.passed(self.dataset, end))
        self.later(self.scale, self._pass)

    def append(self, record: dict[str, Any]) -> None:
        log = self.cluster.log
        after = log.head
        publication = log.append(record, self.random.choice([1, 1, 2, 5]), self.now)

        def told(router: Router, one: Publication = publication) -> list[Told]:
            return router.published(one, after)

        for stream in self._streams:
            stream.say(told)

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
        elif draw < 0.87:
            self.mesh.cut()
        elif draw < 0.91:
            self.cluster.log.retire(choose([0, 1, 3, 10]))
        elif draw < 0.94 and self._streams:
            self._broke(choose(list(self._streams)))
        elif draw < 0.96:
            self.random.shuffle(self.coordinator.order)
        elif draw < 0.98:
            self.coordinator.forget()
        else:
            self.cluster.down = True
            for stream in list(self._streams):
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
            assert broker.core is not None
            filters = broker.core.attachments.filters.values()
            served[broker.name] = [convert(one.filter, Filter) for one in filters]
        there, anew = self.mesh.tables(self.dataset), fresh(tree, served).tables(self.dataset)
        promise(there == anew, f"tables {there} are not those of a fresh start: {anew}")


def _grown(chance: random.Random) -> Tree:
    """Any tree: each broker is linked with an earlier one."""
    names = [f"broker-{number}" for number in range(chance.randint(3, 7))]
    links = [(names[chance.randrange(at)], names[at]) for at in range(1, len(names))]
    return tree_of(names, links)
