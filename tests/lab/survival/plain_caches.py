"""Message caches in plain Python: lists and dictionaries, no links, no places, no compiling. It
draws what the kernel draws, in the same order, so that both must agree on every message."""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy
from tocsin.policies.message.priority import BOTTOM, DROP, TOP


class PlainCaches:
    def __init__(self, load: MessageLoad, policy: MessagePolicy, seed: int) -> None:
        self.load, self.policy = load, policy
        self.random: Any = np.random.default_rng(seed)
        self.now = self.message_s = 0.0
        self.caches: list[list[int]] = [[] for _ in range(load.brokers)]  # the first is on top
        self.clients: dict[int, list[int]] = {}  # of messages that are cached: at each broker
        self.live: tuple[list[int], list[int]] = ([], [])  # popular and unpopular ones
        self.crowd: list[tuple[int, int]] = []  # message and broker of each client
        self.published_s: list[float] = []
        self.survival_s: list[float] = []
        self.unpopular: list[int] = []
        self.copied = 0

    def run(self, publications: int) -> None:
        """Until so many are published, and all of them are gone."""
        rates = (self.load.client_rate, self.load.unpopular_rate)
        brokers = self.load.brokers
        while len(self.published_s) < publications or any(
            message < publications for message in self.clients
        ):
            popular = len(self.live[0]) * brokers * rates[0]
            coming = popular + len(self.live[1]) * brokers * rates[1]
            there = sum(sum(counts) for counts in self.clients.values())
            leaving = there * self.load.departure_rate
            whole = leaving + coming + self.load.publication_rate
            lasting = self.random.standard_exponential() / whole
            self.now += lasting
            self.message_s += lasting * len(self.clients)
            drawn = self.random.random() * whole
            if drawn < leaving:
                self._leave(int(drawn / leaving * len(self.crowd)))
            elif drawn < leaving + coming:
                drawn -= leaving
                kind = 0 if drawn < popular else 1
                at = int((drawn - (popular if kind else 0.0)) / rates[kind])
                self._come(self.live[kind][at // brokers], at % brokers)
            else:
                self._publish()

    def _leave(self, at: int) -> None:
        while True:
            message, broker = self.crowd[at]
            self.crowd[at] = self.crowd[-1]
            self.crowd.pop()
            if message in self.clients:
                break
            at = int(self.random.random() * len(self.crowd))
        self.clients[message][broker] -= 1
        self._move(message, broker, arrived=False)

    def _come(self, message: int, broker: int) -> None:
        counts = self.clients[message]
        counts[broker] += 1
        self.crowd.append((message, broker))
        if message in self.caches[broker]:
            self._move(message, broker, arrived=True)
        elif self.load.copying == "every" or counts[broker] == 1:
            holders = [one for one, cache in enumerate(self.caches) if message in cache]
            others = sum(count > 0 for count in counts) - 1
            if any(self.policy.reaches(counts[one]) for one in holders) and self.policy.keeps(
                counts[broker], others
            ):
                self.copied += 1
                self._put(message, broker)

    def _move(self, message: int, broker: int, *, arrived: bool) -> None:
        cache = self.caches[broker]
        if message not in cache:
            return
        where = self.policy.moves(self.clients[message][broker], arrived)
        if where in (TOP, BOTTOM, DROP):
            cache.remove(message)
        if where == TOP:
            cache.insert(0, message)
        elif where == BOTTOM:
            cache.append(message)
        elif where == DROP:
            self._gone_if_nowhere(message)

    def _put(self, message: int, broker: int) -> None:
        cache = self.caches[broker]
        if len(cache) == self.load.slots:
            self._gone_if_nowhere(cache.pop())
        cache.insert(0, message)

    def _gone_if_nowhere(self, message: int) -> None:
        if any(message in cache for cache in self.caches):
            return
        self.survival_s[message] = self.now - self.published_s[message]
        del self.clients[message]
        live = self.live[self.unpopular[message]]
        live[live.index(message)] = live[-1]
        live.pop()

    def _publish(self) -> None:
        message = len(self.published_s)
        share = self.load.unpopular_share
        kind = 1 if share > 0 and self.random.random() < share else 0
        rate = self.load.unpopular_rate if kind else self.load.client_rate
        counts = [
            int(self.random.poisson(rate / self.load.departure_rate))
            for _ in range(self.load.brokers)
        ]
        self.published_s.append(self.now)
        self.survival_s.append(0.0)
        self.unpopular.append(kind)
        interested = sum(count > 0 for count in counts)
        keeping = [
            broker
            for broker, count in enumerate(counts)
            if self.policy.keeps(count, interested - (count > 0))
        ]
        if not keeping:
            return
        for broker in keeping:
            self._put(message, broker)
        self.clients[message] = counts
        self.live[kind].append(message)
        for broker, count in enumerate(counts):
            self.crowd += [(message, broker)] * count
