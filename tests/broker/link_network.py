"""Brokers' routers with real links on loopback, in one process. The log is a list: records enter at
one broker, and what is to be filled is read from the list. Sockets can be cut at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any, cast

from broker.world import until
from tocsin.broker.server.link import Limits, Link
from tocsin.broker.server.links import Links
from tocsin.broker.server.sockets import Handler, Sockets
from tocsin.broker.server.upgrades import Entrance
from tocsin.caching import MessageCache
from tocsin.overlay.filters import Filter, matches
from tocsin.overlay.routing import (
    Deliver,
    Fill,
    Gap,
    Publication,
    Relink,
    Router,
    RoutingEffect,
    Send,
)
from tocsin.overlay.topology import Tree, without
from tocsin.policies.message import parse_message_policy
from tocsin.protocol.link import PATH
from tocsin.service.keys.credentials import credential_of
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.serving import listen
from tocsin.settings import Settings
from tocsin.testing.fake_cluster import SECRET

DATASET = "world"
HASTY = Limits(most_backoff_s=0.05)


class Node:
    """Links behind a real WebSocket server, and what they told."""

    def __init__(self, name: str, limits: Limits = HASTY, **options: Any) -> None:
        self.name = name
        shared = Settings(secret=SECRET, broker_name=name)
        self.links = Links(name, credential_of(shared), self, limits, **options)
        self.told: list[tuple[Any, ...]] = []
        self._sockets = Sockets(
            cast(Handler, None),  # no client comes
            verifier=TokenVerifier(secret=SECRET),
            frame_limit_bytes=64 * 1024,
            connection_bytes=1024 * 1024,
            stall_s=10.0,
            stalled=lambda: None,
            others={PATH: Entrance(self.links.accept)},
        )

    async def start(self, send_buffer_bytes: int | None = None) -> None:
        listener = listen("127.0.0.1", 0)
        if send_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        await self._sockets.start(listener)

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self._sockets.port}/v1/ws"

    def link(self, neighbour: str) -> Link:
        return self.links._links[neighbour]

    def is_linked(self, neighbour: str) -> bool:
        return neighbour in self.links._links

    async def stop(self) -> None:
        await self.links.stop()
        await self._sockets.stop()

    def linked(self, neighbour: str, incarnation: int) -> None:
        self.told.append(("linked", neighbour, incarnation))

    def unlinked(self, neighbour: str, incarnation: int) -> None:
        self.told.append(("unlinked", neighbour, incarnation))

    def heard(self, neighbour: str, incarnation: int, sequence: int, message: Any) -> None:
        self.told.append(("heard", neighbour, incarnation, sequence, message))


class RoutingNode(Node):
    def __init__(self, network: LinkNetwork, name: str) -> None:
        super().__init__(name)
        self.network = network
        policy = parse_message_policy("sel-sub-fifo")
        cache: MessageCache[tuple[str, int], Publication] = MessageCache(policy, 8)
        self.router = Router(name, cache, policy.reaches)
        self.alive = True

    def linked(self, neighbour: str, incarnation: int) -> None:
        super().linked(neighbour, incarnation)
        self.do(self.router.linked(neighbour, incarnation))

    def unlinked(self, neighbour: str, incarnation: int) -> None:
        super().unlinked(neighbour, incarnation)
        self.do(self.router.unlinked(neighbour, incarnation))

    def heard(self, neighbour: str, incarnation: int, sequence: int, message: Any) -> None:
        self.do(self.router.heard(neighbour, incarnation, sequence, message))

    def do(self, effects: list[RoutingEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.links.send(
                        effect.neighbour, effect.incarnation, effect.sequence, effect.message
                    )
                case Relink():
                    self.links.close(effect.neighbour, effect.incarnation)
                case Deliver():
                    self.network.delivered(self, effect)
                case Fill():
                    self.network.fill(self, effect)
                case Gap():
                    raise AssertionError("the log keeps everything")


class Subscription:
    def __init__(self, broker: str, filter_: Filter, after: int) -> None:
        self.broker = broker
        self.filter = filter_
        self.after = after
        self.got: list[int] = []


class LinkNetwork:
    def __init__(self, tree: Tree, seed: int) -> None:
        self.chance = random.Random(seed)
        self.base, self.tree = tree, tree
        self.nodes: dict[str, RoutingNode] = {}
        self.log: list[Publication] = []
        self.head = 0
        self.entry = ""
        self.subscriptions: dict[int, Subscription] = {}
        self.wrong: list[str] = []
        self._numbers = count(1)
        self._fills: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        for name in self.base.brokers:
            await self._add(name)
        self.enter_at(self.base.brokers[0])
        await self.tell()

    async def _add(self, name: str) -> None:
        node = self.nodes[name] = RoutingNode(self, name)
        await node.start()

    async def tell(self) -> None:
        """Everybody hears of the tree, each at another time."""
        self.tree = without(self.base, set(self.base.brokers) - set(self.nodes))
        names = list(self.nodes)
        self.chance.shuffle(names)
        for name in names:
            beside = self.tree.neighbours(name)
            neighbours = {other: self.nodes[other].ws_url for other in beside}
            self.nodes[name].links.set_neighbours(neighbours)
            await asyncio.sleep(self.chance.random() * 0.01)

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()
        await asyncio.gather(*self._fills)

    # What happens

    def cut_a_link(self) -> None:
        """One end breaks; the other has to notice."""
        node = self.nodes[self.chance.choice(sorted(self.nodes))]
        if node.links._links:
            link = node.link(self.chance.choice(sorted(node.links._links)))
            assert link.transport is not None
            link.transport.disconnect(False)

    async def kill(self, name: str) -> None:
        node = self.nodes.pop(name)
        node.alive = False
        await node.stop()
        self.subscriptions = {
            number: one for number, one in self.subscriptions.items() if one.broker != name
        }
        if name == self.entry:
            self.enter_at(min(self.nodes))

    async def revive(self, name: str) -> None:
        await self._add(name)

    def enter_at(self, name: str) -> None:
        before, self.entry = self.nodes.get(self.entry), name
        if before is not None:
            before.do(before.router.left(DATASET))
        node = self.nodes[name]
        node.do(node.router.entered(DATASET, self.head))

    def publish(self, record: dict[str, Any]) -> None:
        after = self.head
        self.head += 1 + self.chance.randrange(3)
        publication = Publication(DATASET, self.head, record)
        self.log.append(publication)
        node = self.nodes[self.entry]
        node.do(node.router.published(publication, after))

    def tell_progress(self) -> None:
        node = self.nodes[self.entry]
        node.do(node.router.passed(DATASET, self.head))

    def subscribe(self, broker: str, filter_: Filter) -> int:
        number = next(self._numbers)
        self.subscriptions[number] = Subscription(broker, filter_, self.head)
        node = self.nodes[broker]
        node.do(node.router.subscribed(number, filter_, self.head))
        return number

    def unsubscribe(self, number: int) -> None:
        node = self.nodes[self.subscriptions.pop(number).broker]
        node.do(node.router.unsubscribed(number))

    def delivered(self, node: RoutingNode, told: Deliver) -> None:
        for number in told.subscriptions:
            one = self.subscriptions.get(number)
            if one is None:
                continue
            position = told.publication.position
            if position <= (one.got[-1] if one.got else one.after):
                self.wrong.append(f"{position} came to {number} twice, or out of order")
            one.got.append(position)

    def fill(self, node: RoutingNode, told: Fill) -> None:
        async def read() -> None:
            await asyncio.sleep(self.chance.random() * 0.02)
            if node.alive:
                between = [one for one in self.log if told.after < one.position <= told.upto]
                node.do(node.router.filled(told.dataset, told.fill, between))

        task = asyncio.create_task(read())
        self._fills.add(task)
        task.add_done_callback(self._fills.discard)

    # What must hold

    def is_whole(self) -> bool:
        return all(
            sorted(node.links._links) == self.tree.neighbours(name)
            and sorted(node.router.neighbours) == self.tree.neighbours(name)
            for name, node in self.nodes.items()
        )

    def is_settled(self) -> bool:
        return self.is_whole() and all(
            self.nodes[one.broker].router.marker(number) == max(self.head, one.after)
            for number, one in self.subscriptions.items()
        )

    async def settle(self) -> None:
        """Until every link of the tree is there, and everybody was told everything."""
        await until(self.is_whole)
        for _ in range(200):
            self.tell_progress()
            await asyncio.sleep(0.02)
            if self.is_settled():
                return
        await until(self.is_settled)

    def owed(self) -> Iterator[tuple[Subscription, list[int]]]:
        for one in self.subscriptions.values():
            yield (
                one,
                [
                    publication.position
                    for publication in self.log
                    if publication.position > one.after and matches(one.filter, publication.record)
                ],
            )

    def check(self) -> None:
        assert self.wrong == []
        for one, owed in self.owed():
            assert one.got == owed

    def tables(self) -> dict[tuple[str, str], set[Filter]]:
        return {
            (name, other): self.nodes[name].router.route(DATASET).tables.asked(other)
            for name in self.tree.brokers
            for other in self.tree.neighbours(name)
        }


@contextlib.asynccontextmanager
async def running(network: LinkNetwork) -> AsyncIterator[LinkNetwork]:
    try:
        await network.start()
        yield network
    finally:
        await network.stop()
