"""A story told by the running system's own routers and caches, over links that take no time.

Each message is a record of a dataset that enters at the broker where it is published, and clients
ask for it by its number.
"""

from __future__ import annotations

from collections import deque

from tocsin.caching import MessageCache
from tocsin.lab.simulators.overlay.kernel import COUNTS
from tocsin.lab.simulators.overlay.story import Happening, Step
from tocsin.overlay.filters import Constraint, Filter
from tocsin.overlay.routing import Publication, Recall, Router, RoutingEffect, Send
from tocsin.overlay.topology import Tree
from tocsin.policies.message import MessagePolicy


class LiveTree:
    def __init__(self, tree: Tree, slots: int, policy: MessagePolicy) -> None:
        self.names = tree.brokers
        self._caches: list[MessageCache[tuple[str, int], Publication]] = [
            MessageCache(policy, slots) for _ in tree.brokers
        ]
        self.routers = {
            name: Router(name, cache, policy.reaches)
            for name, cache in zip(tree.brokers, self._caches, strict=True)
        }
        self._under_way: deque[tuple[str, Send]] = deque()
        self._hops: list[int] = []  # of what the last request brought
        self._positions = 0
        self._subscriptions: dict[tuple[int, int], list[int]] = {}
        self._next = 0
        self._counts = dict.fromkeys(COUNTS, 0)
        for broker, other in tree.links:
            for here, there in ((broker, other), (other, broker)):
                self._do(here, self.routers[here].linked(there, 1))
        for name in tree.brokers:
            self._do(name, self.routers[name].entered(name, -1))
        self._settle()

    def step(self, happening: Happening, published_at: int) -> Step:
        """`published_at`: the broker where the message of the happening is, or will be."""
        name, dataset = self.names[happening.broker], self.names[published_at]
        router, filter_ = self.routers[name], _asks(dataset, happening.message)
        if happening.kind == "publishes":
            self._positions += 1
            publication = Publication(dataset, self._positions, {"number": happening.message})
            self._do(name, router.published(publication, -1))
        elif happening.kind == "comes":
            self._next += 1
            self._subscriptions.setdefault((happening.broker, happening.message), []).append(
                self._next
            )
            self._do(name, router.subscribed(self._next, filter_, self._positions))
            self._settle()
            self._request(name, filter_)
        else:
            gone = self._subscriptions[happening.broker, happening.message].pop()
            self._do(name, router.unsubscribed(gone))
        self._settle()
        return Step(dict(self._counts), [_cached(cache) for cache in self._caches])

    def _request(self, name: str, filter_: Filter) -> None:
        before, self._hops = self._counted(), []
        self._do(name, self.routers[name].requested(self._next, filter_))
        self._settle()
        self._do(name, self.routers[name].request_ended(self._next))
        after = self._counted()
        self._counts["requests"] += 1
        if self._hops:
            self._counts["answered"] += 1
            self._counts["hops"] += min(self._hops)
            for count in after:
                self._counts[count] += after[count] - before[count]

    def _counted(self) -> dict[str, int]:
        counters = [router.counters for router in self.routers.values()]
        return {
            name: sum(getattr(counts, name) for counts in counters)
            for name in ("responses", "delivered", "slots_searched", "links")
        }

    def _do(self, name: str, effects: list[RoutingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._under_way.append((name, effect))
            elif isinstance(effect, Recall):
                self._hops.append(effect.hops)

    def _settle(self) -> None:
        while self._under_way:
            sender, sent = self._under_way.popleft()
            heard = self.routers[sent.neighbour].heard(
                sender, sent.incarnation, sent.sequence, sent.message
            )
            self._do(sent.neighbour, heard)


def play_live(
    story: list[Happening], tree: Tree, messages: int, slots: int, policy: MessagePolicy
) -> list[Step]:
    published = {
        happening.message: happening.broker for happening in story if happening.kind == "publishes"
    }
    live = LiveTree(tree, slots, policy)
    return [live.step(happening, published.get(happening.message, 0)) for happening in story]


def _asks(dataset: str, message: int) -> Filter:
    number = Constraint(column="number", kind="whole", ranges=((message, message + 1),))
    return Filter(dataset, (number,))


def _cached(cache: MessageCache[tuple[str, int], Publication]) -> list[int]:
    publications = cache.search(lambda _: True)
    return [publication.record["number"] for publication in reversed(publications)]
