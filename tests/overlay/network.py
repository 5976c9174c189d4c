"""Routers in one process, without cores: links with delays, cuts, deaths and late messages, all
from one seed.

A coordinator cuts dead brokers out of the tree and tells the living, each at another time; a
cluster keeps the log, lets publications enter at one broker, and answers what is to be filled. Who
is subscribed to what, and what was delivered, is written down for the checks at the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tocsin.overlay.filters import Filter, matches
from tocsin.overlay.routing import (
    Deliver,
    Fill,
    Gap,
    Publication,
    Recall,
    Relink,
    Router,
    RoutingEffect,
    Send,
)
from tocsin.overlay.topology import Tree, without
from tocsin.policies.message import parse_message_policy
from tocsin.testing.simulation.agenda import Agenda
from tocsin.testing.simulation.mesh import Mesh, a_router

DATASET = "world"


class Subscription:
    def __init__(self, broker: str, filter_: Filter, after: int) -> None:
        self.broker = broker
        self.filter = filter_
        self.after = after
        self.got: list[int] = []


class Network:
    def __init__(
        self,
        tree: Tree,
        seed: int = 0,
        *,
        slow_s: float = 1.0,
        most_held: int = 1000,
        policy: str = "sel-sub-fifo",
        slots: int = 8,
    ) -> None:
        self.chance = random.Random(seed)
        self.agenda = Agenda()
        self.slow_s = slow_s  # the longest delay of anything; 0: all happens at once, in order
        self.base, self.tree = tree, tree
        self.policy, self.slots, self.most_held = parse_message_policy(policy), slots, most_held
        self.mesh = Mesh(self.agenda, self.chance, self.delay, self.do)
        self.mesh.faulty = slow_s > 0
        self.sent: list[tuple[str, Send]] = []
        self.mesh.sent = self.sent
        self.routers = self.mesh.routers
        self.log: list[Publication] = []
        self.head = -1
        self.entry: str | None = None
        self.entry_latest = 0.0
        self.subscriptions: dict[int, Subscription] = {}
        self.fills = 0
        self.recalled: dict[int, list[Recall]] = {}
        self._numbers = count(1)
        for name in tree.brokers:
            self._begin(name)
        for name in tree.brokers:
            self.mesh.learn(name, tree.neighbours(name))

    def _begin(self, name: str) -> None:
        self.mesh.join(name, a_router(name, self.policy, self.slots, self.most_held))

    # -- time -------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.agenda.now

    def later(self, do: Callable[[], None]) -> None:
        self.agenda.later(self.delay(), do)

    def delay(self) -> float:
        return self.chance.random() * self.slow_s

    def run(self, until: float = float("inf")) -> None:
        self.agenda.run(until)

    # -- effects ----------------------------------------------------------------------------------

    def do(self, broker: str, effects: list[RoutingEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.mesh.send(broker, effect)
                case Relink():
                    self.mesh.relink(broker, effect)
                case Deliver():
                    self._delivered(broker, effect)
                case Fill():
                    self.fills += 1
                    self.later(lambda told=effect: self._fill(broker, told))  # type: ignore[misc]
                case Gap():
                    raise AssertionError("the log keeps everything")
                case Recall():
                    self.recalled.setdefault(effect.request, []).append(effect)

    def _delivered(self, broker: str, told: Deliver) -> None:
        for number in told.subscriptions:
            subscription = self.subscriptions[number]
            assert subscription.broker == broker
            assert matches(subscription.filter, told.publication.record)
            last = subscription.got[-1] if subscription.got else subscription.after
            assert told.publication.position > last, "twice, or out of order"
            subscription.got.append(told.publication.position)

    def _fill(self, broker: str, told: Fill) -> None:
        if broker in self.routers:
            between = [one for one in self.log if told.after < one.position <= told.upto]
            assert told.upto <= self.head
            self.do(broker, self.routers[broker].filled(told.dataset, told.fill, between))

    # -- what happens -----------------------------------------------------------------------------

    def enter_at(self, broker: str) -> None:
        """Publications enter there from now on."""
        before, self.entry = self.entry, broker
        if before is not None:
            self.later(lambda: self._left(before))
        position = self.head
        self.entry_latest = max(self.entry_latest, self.now)
        self._to_entry(lambda router: router.entered(DATASET, position))

    def _left(self, broker: str) -> None:
        if broker != self.entry and broker in self.routers:
            self.do(broker, self.routers[broker].left(DATASET))

    def _to_entry(self, call: Callable[[Router], list[RoutingEffect]]) -> None:
        entry = self.entry
        self.entry_latest = max(self.entry_latest, self.now + self.delay())

        def arrive() -> None:
            if entry in self.routers and entry == self.entry:
                self.do(entry, call(self.routers[entry]))

        self.agenda.at(self.entry_latest, arrive)

    def publish(self, record: dict[str, Any]) -> None:
        after = self.head
        self.head += 1 + self.chance.randrange(3)
        publication = Publication(DATASET, self.head, record)
        self.log.append(publication)
        self._to_entry(lambda router: router.published(publication, after))

    def tell_progress(self) -> None:
        position = self.head
        self._to_entry(lambda router: router.passed(DATASET, position))

    def subscribe(self, broker: str, filter_: Filter) -> int:
        number = next(self._numbers)
        self.subscriptions[number] = Subscription(broker, filter_, self.head)
        self.do(broker, self.routers[broker].subscribed(number, filter_, self.head))
        return number

    def unsubscribe(self, number: int) -> None:
        subscription = self.subscriptions.pop(number)
        self.do(subscription.broker, self.routers[subscription.broker].unsubscribed(number))

    def request(self, broker: str, filter_: Filter) -> int:
        number = next(self._numbers)
        self.recalled[number] = []
        self.do(broker, self.routers[broker].requested(number, filter_))
        return number

    def kill(self, broker: str) -> None:
        self.mesh.leave(broker)
        self.subscriptions = {
            number: one for number, one in self.subscriptions.items() if one.broker != broker
        }
        self._retree()
        if broker == self.entry:
            self.entry = None
            self.later(self._enter_elsewhere)

    def revive(self, broker: str) -> None:
        self._begin(broker)
        self._retree()

    def _enter_elsewhere(self) -> None:
        if self.entry is None:
            self.enter_at(self.chance.choice(sorted(self.routers)))

    def _retree(self) -> None:
        """The coordinator makes the tree anew; the living hear of it one by one."""
        tree = self.tree = without(self.base, set(self.base.brokers) - set(self.routers))
        for name in tree.brokers:
            self.later(lambda name=name: self._learn(name, tree))  # type: ignore[misc]

    def _learn(self, name: str, tree: Tree) -> None:
        if tree is self.tree:
            self.mesh.learn(name, tree.neighbours(name))

    # -- what must hold ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything arrive, and every link that the tree has be there."""
        self.mesh.faulty = False
        for _ in range(20):
            for name in sorted(self.routers):
                self._learn(name, self.tree)
            self.run()
            self.tell_progress()
            self.run()
        assert set(self.mesh.connections) == set(self.tree.links)

    def owed(self) -> Iterator[tuple[int, list[int]]]:
        for number, one in self.subscriptions.items():
            yield (
                number,
                [
                    publication.position
                    for publication in self.log
                    if publication.position > one.after and matches(one.filter, publication.record)
                ],
            )

    def check(self) -> None:
        for number, owed in self.owed():
            assert self.subscriptions[number].got == owed
            one = self.subscriptions[number]
            assert self.routers[one.broker].marker(number) == max(self.head, one.after)
