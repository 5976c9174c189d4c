"""Links between brokers: they come up, break and come again, and what they carry may be late,
repeated or lost. Each broker links with those it was told of; both ends must want it.

Knows routers, and nothing of clients or the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from tocsin.caching import MessageCache
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Message, Publication, Relink, Router, RoutingEffect, Send
from tocsin.overlay.topology import Tree
from tocsin.policies.message import MessagePolicy, parse_message_policy
from tocsin.testing.simulation.agenda import Agenda

LOST = 0.01
REPEATED = 0.05


class LinkEnd(Protocol):
    """A router, or a broker around one."""

    def linked(self, neighbour: str, incarnation: int) -> Sequence[Any]: ...
    def unlinked(self, neighbour: str, incarnation: int) -> Sequence[Any]: ...
    def heard(
        self, neighbour: str, incarnation: int, sequence: int, message: Message
    ) -> Sequence[Any]: ...


class Connection:
    """One incarnation of a link."""

    def __init__(self, ends: tuple[str, str], incarnation: int, store_id: str | None) -> None:
        self.ends = ends
        self.store_id = store_id  # that both ends were with when it was made
        self.incarnation = incarnation
        self.up: set[str] = set()
        self.closed = False
        self.latest = dict.fromkeys(ends, 0.0)  # arrival at an end: later ones come after
        self.early: dict[str, list[Send]] = {end: [] for end in ends}  # before it knew of the link

    def other(self, end: str) -> str:
        return self.ends[1] if end == self.ends[0] else self.ends[0]


class Mesh:
    def __init__(
        self,
        agenda: Agenda,
        chance: random.Random,
        delay_s: Callable[[], float],
        do: Callable[[str, Any], None],  # what a broker asks for
    ) -> None:
        self.faulty = True
        self.routers: dict[str, Router] = {}  # of those that live
        self.connections: dict[tuple[str, str], Connection] = {}
        self.store_of: Callable[[str], str | None] = lambda name: None  # a broker's store
        self.sent: list[tuple[str, Send]] | None = None  # by whom, if somebody wants to know
        self._agenda = agenda
        self._chance = chance
        self._delay_s = delay_s
        self._do = do
        self._ends: dict[str, LinkEnd] = {}
        self._wanted: dict[str, set[str]] = {}
        self._incarnations = count(1)

    def _later(self, do: Callable[[], None]) -> None:
        self._agenda.later(self._delay_s(), do)

    # -- brokers ----------------------------------------------------------------------------------

    def join(self, name: str, router: Router, end: LinkEnd | None = None) -> None:
        """A process begins; it knows of no neighbours yet. `end`: who hears of links, if not the
        router itself."""
        self.routers[name] = router
        self._ends[name] = end or router
        self._wanted[name] = set()

    def leave(self, name: str) -> None:
        """It dies."""
        del self.routers[name], self._ends[name], self._wanted[name]
        for ends, connection in list(self.connections.items()):
            if name in ends:
                self.close(connection)

    def learn(self, name: str, neighbours: Iterable[str]) -> None:
        """It is told who its neighbours are."""
        if name not in self.routers:
            return
        self._wanted[name] = set(neighbours)
        for ends, connection in list(self.connections.items()):
            if name in ends and connection.other(name) not in self._wanted[name]:
                self.close(connection)
        for other in sorted(self._wanted[name]):
            self._connect(name, other)

    # -- links ------------------------------------------------------------------------------------

    def _connect(self, end: str, other: str) -> None:
        ends = (min(end, other), max(end, other))
        both = other in self._wanted.get(end, ()) and end in self._wanted.get(other, ())
        if ends in self.connections or not both:
            return
        store_id = self.store_of(end)
        if store_id != self.store_of(other):
            return  # one of the two has yet to hear of the new store
        connection = Connection(ends, next(self._incarnations), store_id)
        self.connections[ends] = connection
        for end in ends:
            self._later(lambda end=end: self._opened(connection, end))  # type: ignore[misc]

    def _opened(self, connection: Connection, end: str) -> None:
        connection.up.add(end)
        connection.latest[end] = max(connection.latest[end], self._agenda.now)
        if end in self._ends and self.store_of(end) != connection.store_id:
            self.close(connection)
            return
        listener = self._ends.get(end)
        if listener is not None:
            self._do(end, listener.linked(connection.other(end), connection.incarnation))
        for sent in connection.early.pop(end):
            self._arrived(connection, end, sent)

    def close(self, connection: Connection) -> None:
        """Each end hears of it at its own time, and after it heard that there was a link."""
        if connection.closed:
            return
        connection.closed = True
        informed = set[str]()

        def hear(end: str) -> None:
            listener = self._ends.get(end)
            if listener is not None and end not in connection.up:
                self._later(lambda: hear(end))
                return
            if listener is not None:
                self._do(end, listener.unlinked(connection.other(end), connection.incarnation))
            informed.add(end)
            if len(informed) == 2:
                del self.connections[connection.ends]
                self._later(lambda: self._connect(*connection.ends))

        for end in connection.ends:
            self._later(lambda end=end: hear(end))  # type: ignore[misc]

    def cut(self) -> None:
        """Some link breaks."""
        if self.connections:
            self.close(self.connections[self._chance.choice(sorted(self.connections))])

    def stall(self, seconds: float) -> None:
        """Some link brings nothing for a while: a neighbour seems silent."""
        if self.connections:
            connection = self.connections[self._chance.choice(sorted(self.connections))]
            for end in connection.ends:
                latest = max(connection.latest[end], self._agenda.now)
                connection.latest[end] = latest + seconds

    def relink(self, end: str, relink: Relink) -> None:
        connection = self.connections.get(_ends(end, relink.neighbour))
        if connection is not None and connection.incarnation == relink.incarnation:
            self.close(connection)

    def send(self, end: str, sent: Send) -> None:
        if self.sent is not None:
            self.sent.append((end, sent))
        connection = self.connections.get(_ends(end, sent.neighbour))
        if connection is None or connection.incarnation != sent.incarnation or connection.closed:
            return  # it is closed, and this end has yet to hear of it
        if self.faulty and self._chance.random() < LOST:
            self._later(lambda: self.close(connection))  # what follows may come before
            return
        to = sent.neighbour
        arrives = max(self._agenda.now + self._delay_s(), connection.latest[to])
        connection.latest[to] = arrives
        self._agenda.at(arrives, lambda: self._arrived(connection, to, sent))
        if self.faulty and self._chance.random() < REPEATED:  # again, perhaps much later
            again = arrives + 5 * self._delay_s()
            self._agenda.at(again, lambda: self._arrived(connection, to, sent))

    def _arrived(self, connection: Connection, to: str, sent: Send) -> None:
        listener = self._ends.get(to)
        if listener is None:
            return
        if to not in connection.up:
            connection.early[to].append(sent)
            return
        if to in connection.early:
            return  # it never was a link at this end
        if connection.closed and self._chance.random() < 0.5:
            return
        sender = connection.other(to)
        self._do(to, listener.heard(sender, sent.incarnation, sent.sequence, sent.message))

    # -- what must hold ---------------------------------------------------------------------------

    def tables(self, dataset: str) -> dict[tuple[str, str], set[Filter]]:
        """Of every broker, what each neighbour asked of it."""
        return {
            (name, other): router.route(dataset).tables.asked(other)
            for name, router in self.routers.items()
            for other in router.neighbours
        }


def a_router(name: str, policy: MessagePolicy, slots: int, most_held: int) -> Router:
    cache: MessageCache[tuple[str, int], Publication] = MessageCache(policy, slots)
    return Router(name, cache, policy.reaches, most_held=most_held)


def fresh(tree: Tree, clients: Mapping[str, Iterable[Filter]]) -> Mesh:
    """The same brokers and clients from the beginning, without any delay or fault."""
    agenda = Agenda()

    def do(name: str, effects: list[RoutingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                mesh.send(name, effect)

    mesh = Mesh(agenda, random.Random(0), lambda: 0.0, do)
    mesh.faulty = False
    for name in tree.brokers:
        mesh.join(name, a_router(name, parse_message_policy("sel-sub-fifo"), 0, 0))
    for name in tree.brokers:
        mesh.learn(name, tree.neighbours(name))
    agenda.run()
    numbers = count(1)
    for name, filters in clients.items():
        for filter_ in filters:
            do(name, mesh.routers[name].subscribed(next(numbers), filter_, 0))
            agenda.run()
    return mesh


def _ends(end: str, other: str) -> tuple[str, str]:
    return min(end, other), max(end, other)
