"""The live broker's core under a workload: what the compiled kernel must equal.

Drives the very object that the broker server drives, event by event, and plays cluster and
clients for it: results are pulled ahead, fetches answered at once, every get acknowledged. Slow
and exact; also the plain-Python baseline that the kernel is measured against.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Answer, Effect, Fetch
from tocsin.broker.machine.events import NewHead, RangeAnswer
from tocsin.lab.simulators.result_cache.simulator import Outcome, outcome_of
from tocsin.lab.simulators.result_cache.state import (
    LATENCY_BINS,
    LATENCY_RATIO,
    SHORTEST_LATENCY_S,
    STEP,
)
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, Workload
from tocsin.model import BackendSubscription, Result, Subscription
from tocsin.policies import CachePolicy

_EPOCH = "lab"


def run_live(
    workload: Workload,
    policy: CachePolicy,
    budget_bytes: int,
    network: Network | None = None,
) -> tuple[Outcome, NDArray[Any]]:
    """As `simulator.simulate_steps`."""
    run = _LiveRun(policy, budget_bytes, network or Network())
    steps = np.zeros(len(workload), STEP)
    started = time.perf_counter()
    columns = (workload.at, workload.kind, workload.subject, workload.value)
    for number, event in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        run.do(workload.owners, *event)
        steps[number] = run.standing()
    seconds = time.perf_counter() - started
    outcome = outcome_of(run.totals(), run.latencies, workload.duration_s, budget_bytes, seconds)
    return outcome, steps


class _LiveRun:
    def __init__(self, policy: CachePolicy, budget_bytes: int, network: Network) -> None:
        self.core = BrokerCore(policy, budget_bytes, 0.0, fetch_limit=10**9)
        self.latencies = np.zeros(LATENCY_BINS, np.int64)
        self._pulls = policy.caches
        self._network = network
        self._stored: dict[int, list[Result]] = {}
        self._subscriptions: dict[int, Subscription] = {}  # of frontend subscriptions, by slot
        self._of: dict[int, dict[int, None]] = {}  # subscriber -> its slots, oldest first
        self._online: set[int] = set()
        self._numbers = 0
        self._counts = dict.fromkeys(
            ("gets", "gets_with_miss", "volume_objects", "volume_bytes", "pulled_bytes", "events"),
            0,
        )
        self._latency_s = 0.0

    def do(self, owners: NDArray[np.int32], at: float, kind: int, subject: int, value: int) -> None:
        if kind == PUBLISH:
            self._publish(subject, value, at)
        elif kind == ONLINE:
            self._come(subject, at)
        elif kind == OFFLINE:
            self._online.discard(subject)
            self._counts["events"] += len(self._of.get(subject, ()))
            self.core.disconnected(subject, at)
        elif kind == SUBSCRIBE:
            self._subscribe(subject, value, int(owners[subject]), at)
        else:
            self._counts["events"] += 1
            del self._of[int(owners[subject])][subject]
            self.core.unsubscribed(self._subscriptions.pop(subject).id, at)

    def _publish(self, backend: int, size_bytes: int, now: float) -> None:
        attached = self.core.table.backends.get(backend)
        if attached is None:
            return  # nobody asked, so no result was made
        fetch_s = self._network.fetch_s(size_bytes)
        stored = self._stored.setdefault(backend, [])
        stored.append(Result(backend, len(stored) + 1, now - fetch_s, bytes(size_bytes)))
        for name, amount in (("events", 1), ("volume_objects", 1), ("volume_bytes", size_bytes)):
            self._counts[name] += amount
        effects = self.core.notice([NewHead(backend, _EPOCH, len(stored))], [], now - fetch_s)
        if self._pulls:
            self._counts["pulled_bytes"] += size_bytes
            (fetch,) = effects
            assert isinstance(fetch, Fetch)
            self.core.fetched(fetch.fetch, self._range(fetch), now)
        here = [f for f in attached.frontends.values() if f.away_since is None]
        for frontend in here:
            self._get(frontend.subscriber, frontend.id, now)

    def _come(self, subscriber: int, now: float) -> None:
        self._online.add(subscriber)
        slots = list(self._of.get(subscriber, ()))
        subscriptions = [self._subscriptions[slot] for slot in slots]
        name = str(subscriber)
        self.core.connected(subscriber, name, False, subscriptions, self.core.query_token, now)
        for subscription in subscriptions:
            self._counts["events"] += 1
            frontend = self.core.table.frontends[subscription.id]
            if frontend.marker < frontend.backend.fetched:
                self._get(name, subscription.id, now)

    def _subscribe(self, slot: int, backend: int, owner: int, now: float) -> None:
        self._counts["events"] += 1
        self._numbers += 1
        head = len(self._stored.get(backend, ()))
        stored = BackendSubscription(backend, "", {}, _EPOCH, head)
        subscription = Subscription(self._numbers, str(owner), None, stored, head)
        self._subscriptions[slot] = subscription
        self._of.setdefault(owner, {})[slot] = None
        self.core.subscribed(subscription, self.core.query_token, now)

    def _get(self, subscriber: str, subscription: int, now: float) -> None:
        effects = self.core.get(None, subscriber, subscription, now)
        missed_bytes = 0
        if isinstance(fetch := effects[0], Fetch):
            missed = self._range(fetch)
            missed_bytes = sum(result.size_bytes for result in missed.results)
            took_s = self._network.fetch_s(missed_bytes)
            effects = self.core.fetched(fetch.fetch, missed, now + took_s)
        answer = _answer(effects)
        all_bytes = sum(result.size_bytes for result in answer.results)
        self._record(all_bytes, missed_bytes)
        self.core.ack(subscriber, subscription, _EPOCH, answer.upto, now)

    def _record(self, all_bytes: int, missed_bytes: int) -> None:
        network = self._network
        latency_s = network.subscriber_rtt_s + all_bytes / network.subscriber_bytes_per_s
        if missed_bytes:
            latency_s += network.fetch_s(missed_bytes)
            self._counts["gets_with_miss"] += 1
        self._counts["gets"] += 1
        self._latency_s += latency_s
        steps = math.log(max(latency_s, SHORTEST_LATENCY_S) / SHORTEST_LATENCY_S)
        at = min(int(steps / math.log(LATENCY_RATIO)), LATENCY_BINS - 1)
        self.latencies[at] += 1

    def _range(self, fetch: Fetch) -> RangeAnswer:
        stored = self._stored[fetch.backend]
        return RangeAnswer(_EPOCH, 0, len(stored), stored[fetch.after : fetch.upto])

    def standing(self) -> tuple[int, int, int, int]:
        """`STEP`."""
        counters = self.core.cache.counters
        left = counters.evicted + counters.expired + counters.consumed + counters.dropped
        return counters.hits, counters.misses, self.core.cache.size_bytes, left

    def totals(self) -> dict[str, Any]:
        cache = self.core.cache
        return {
            **asdict(cache.counters),
            **self._counts,
            "latency_s": self._latency_s,
            "size_bytes": cache.size_bytes,
            "measured_at": cache.measured_at,
        }


def _answer(effects: list[Effect]) -> Answer:
    (answer,) = (effect for effect in effects if isinstance(effect, Answer))
    return answer
