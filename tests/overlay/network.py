"""Brokers in one process: links with delays, cuts, deaths and late messages, all from one seed.

A coordinator cuts dead brokers out of the tree and tells the living, each at another time; a
cluster keeps the log, lets publications enter at one broker, and answers what is to be filled. Who
is subscribed to what, and what was delivered, is written down for the checks at the end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tocsin.caching import MessageCache
from tocsin.overlay.filters import Filter, matches
from tocsin.overlay.routing import (
    Deliver,
    Effect,
    Fill,
    Gap,
    Publication,
    Recall,
    Relink,
    Router,
    Send,
)
from tocsin.overlay.topology import Tree, without
from tocsin.policies.message import parse_message_policy

DATASET = "world"


class Connection:
    """One incarnation of a link."""

    def __init__(self, ends: tuple[str, str], incarnation: int) -> None:
        self.ends = ends
        self.incarnation = incarnation
        self.up: set[str] = set()
        self.closed = False
        self.latest = dict.fromkeys(ends, 0.0)  # arrival at an end: later ones come after

    def other(self, end: str) -> str:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


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
        self.now = 0.0
        self.slow_s = slow_s  # the longest delay of anything; 0: all happens at once, in order
        self.base, self.tree = tree, tree
        self.policy, self.slots, self.most_held = parse_message_policy(policy), slots, most_held
        self.routers = {name: self._router(name) for name in tree.brokers}
        self.views = dict.fromkeys(tree.brokers, tree)
        self.connections: dict[tuple[str, str], Connection] = {}
        self.log: list[Publication] = []
        self.head = -1
        self.entry: str | None = None
        self.entry_latest = 0.0
        self.subscriptions: dict[int, Subscription] = {}
        self.fills = 0
        self.sent: list[tuple[str, Send]] = []
        self.recalled: dict[int, list[Recall]] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = count()
        self._numbers = count(1)
        self._incarnations = count(1)
        for one, other in tree.links:
            self._connect(one, other)

    def _router(self, name: str) -> Router:
        cache: MessageCache[tuple[str, int], Publication] = MessageCache(self.policy, self.slots)
        return Router(name, cache, self.policy.reaches, most_held=self.most_held)

    # -- time -------------------------------------------------------------------------------------

    def at(self, moment: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (moment, next(self._ties), do))

    def later(self, do: Callable[[], None]) -> None:
        self.at(self.now + self.delay(), do)

    def delay(self) -> float:
        return self.chance.random() * self.slow_s

    def run(self, until: float = float("inf")) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            do()
        if until < float("inf"):
            self.now = until

    # -- links ------------------------------------------------------------------------------------

    def _wanted(self, one: str, other: str) -> bool:
        both = one in self.routers and other in self.routers
        return both and all(
            other_end in self.views[end].neighbours(end)
            for end, other_end in ((one, other), (other, one))
        )

    def _connect(self, one: str, other: str) -> None:
        ends = (min(one, other), max(one, other))
        if ends in self.connections or not self._wanted(one, other):
            return
        connection = self.connections[ends] = Connection(ends, next(self._incarnations))
        for end in ends:
            self.later(lambda end=end: self._opened(connection, end))  # type: ignore[misc]

    def _opened(self, connection: Connection, end: str) -> None:
        connection.up.add(end)
        connection.latest[end] = max(connection.latest[end], self.now)
        if end in self.routers:
            router = self.routers[end]
            self.do(end, router.linked(connection.other(end), connection.incarnation))

    def close(self, connection: Connection) -> None:
        """Each end hears of it at its own time, and after it heard that there was a link."""
        if connection.closed:
            return
        connection.closed = True
        told = set[str]()

        def hear(end: str) -> None:
            if end in self.routers and end not in connection.up:
                self.later(lambda: hear(end))
                return
            if end in self.routers:
                router = self.routers[end]
                self.do(end, router.unlinked(connection.other(end), connection.incarnation))
            told.add(end)
            if len(told) == 2:
                del self.connections[connection.ends]
                self.later(lambda: self._connect(*connection.ends))

        for end in connection.ends:
            self.later(lambda end=end: hear(end))  # type: ignore[misc]

    def cut_a_link(self) -> None:
        if self.connections:
            self.close(self.connections[self.chance.choice(sorted(self.connections))])

    def _send(self, end: str, told: Send) -> None:
        self.sent.append((end, told))
        ends = (min(end, told.neighbour), max(end, told.neighbour))
        connection = self.connections.get(ends)
        if connection is None or connection.incarnation != told.incarnation or connection.closed:
            return  # it is closed, and this end has yet to hear of it
        to = told.neighbour
        arrives = max(self.now + self.delay(), connection.latest[to])
        connection.latest[to] = arrives
        self.at(arrives, lambda: self._arrived(connection, to, told))
        if self.slow_s and self.chance.random() < 0.05:  # again, perhaps much later
            again = arrives + self.chance.random() * 5 * self.slow_s
            self.at(again, lambda: self._arrived(connection, to, told))

    def _arrived(self, connection: Connection, to: str, told: Send) -> None:
        if to not in self.routers:
            return
        if to not in connection.up:  # nothing comes before the link
            self.at(self.now + 0.1 * self.slow_s, lambda: self._arrived(connection, to, told))
            return
        if connection.closed and self.chance.random() < 0.5:
            return
        router, sender = self.routers[to], connection.other(to)
        self.do(to, router.heard(sender, told.incarnation, told.sequence, told.message))

    # -- effects ----------------------------------------------------------------------------------

    def do(self, broker: str, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(broker, effect)
                case Relink():
                    ends = (min(broker, effect.neighbour), max(broker, effect.neighbour))
                    connection = self.connections.get(ends)
                    if connection is not None and connection.incarnation == effect.incarnation:
                        self.close(connection)
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

    def _to_entry(self, call: Callable[[Router], list[Effect]]) -> None:
        entry = self.entry
        self.entry_latest = max(self.entry_latest, self.now + self.delay())

        def arrive() -> None:
            if entry in self.routers and entry == self.entry:
                self.do(entry, call(self.routers[entry]))

        self.at(self.entry_latest, arrive)

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
        del self.routers[broker]
        self.subscriptions = {
            number: one for number, one in self.subscriptions.items() if one.broker != broker
        }
        for ends, connection in list(self.connections.items()):
            if broker in ends:
                self.close(connection)
        self._retree()
        if broker == self.entry:
            self.entry = None
            self.later(self._enter_elsewhere)

    def revive(self, broker: str) -> None:
        self.routers[broker] = self._router(broker)
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
        if name not in self.routers or tree is not self.tree:
            return
        self.views[name] = tree
        for connection in list(self.connections.values()):
            other = connection.other(name) if name in connection.ends else name
            if name in connection.ends and other not in tree.neighbours(name):
                self.close(connection)
        for other in tree.neighbours(name):
            self._connect(name, other)

    # -- what must hold ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything arrive, and every link that the tree has be there."""
        for _ in range(20):
            for name in sorted(self.routers):
                self._learn(name, self.tree)
            self.run()
            self.tell_progress()
            self.run()
        assert set(self.connections) == set(self.tree.links)

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

    def tables(self) -> dict[tuple[str, str], set[Filter]]:
        """Of every broker, what each neighbour asked of it."""
        return {
            (name, other): self.routers[name].route(DATASET).tables.asked(other)
            for name in self.tree.brokers
            for other in self.tree.neighbours(name)
        }
