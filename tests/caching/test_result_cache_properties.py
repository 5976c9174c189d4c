"""The result cache does what Algorithm 1 with explicit subscriber sets does, for every policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.caching import ResultCache
from tocsin.model import Result
from tocsin.policies import CachePolicy, Candidate, parse_policy
from tocsin.policies.eviction import tie
from tocsin.policies.expiry import (
    AVERAGE_WEIGHT,
    LONGEST_TTL_S,
    REESTIMATE_EVERY_S,
    growth,
    moving_average,
)

POLICIES = ["lru", "lsc", "ttl", "none", "evict=lru expire=ttl", "evict=lsc expire=ttl"]
STEP = st.tuples(
    st.sampled_from(["put", "put", "put", "get", "ack", "ack", "join", "leave", "wait"]),
    st.integers(0, 3),  # backend
    st.integers(0, 9),  # subscriber, chosen among those there
    st.integers(1, 40),  # size, or how far an ack goes
    st.sampled_from([0.0, 1.0, 7.0, 150.0]),  # time that passes before
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(0, 120), st.lists(STEP, min_size=10, max_size=80))
def test_result_cache_equals_algorithm_1(
    text: str, budget_bytes: int, steps: list[tuple[str, int, int, int, float]]
) -> None:
    policy = parse_policy(text)
    real, naive = ResultCache(policy, budget_bytes), NaiveCaches(policy, budget_bytes)
    now, names = 0.0, 0
    for backend in range(4):
        real.open(backend, 0)
        naive.caches[backend] = NaiveCache(newest=0)
        for _ in range(backend):
            names += 1
            real.attach(backend, 0, now)
            naive.attach(backend, names, 0)
    for kind, backend, who, amount, elapsed in steps:
        now += elapsed
        model = naive.caches[backend]
        there = sorted(model.subscribers)
        subscriber = there[who % len(there)] if there else None
        if kind == "put":
            result = Result(backend, model.newest + 1, now, b"x" * amount)
            real.put(result, now)
            naive.put(result, now)
        elif kind == "get":
            after = max(0, model.newest - amount % 6)
            assert real.get(backend, after, model.newest, now) == naive.get(backend, after, now)
        elif kind == "join":
            names += 1
            # a newcomer stands at the newest; one that moved here behind, or ahead of us
            marker = max(0, model.newest + (0, -2, 1)[amount % 3])
            real.attach(backend, marker, now)
            naive.attach(backend, names, marker)
        elif kind == "leave" and subscriber is not None:
            real.detach(backend, model.subscribers[subscriber], now)
            naive.detach(backend, subscriber)
        elif kind == "ack" and subscriber is not None:
            marker = model.subscribers[subscriber]
            position = max(marker, min(model.newest, marker + amount % 5))
            real.advance(backend, marker, position, now)
            naive.ack(backend, subscriber, position)
        else:
            real.expire(now)
            naive.expire(now)
        _compare(real, naive)


def _compare(real: ResultCache, naive: NaiveCaches) -> None:
    for backend, model in naive.caches.items():
        assert real.contents(backend) == [o.result for o in model.objects]
        tail = model.objects[0].result.position if model.objects else model.newest + 1
        assert real.tail(backend) == tail
        if model.objects:
            assert real.candidate(backend) == naive.candidate(backend)
    counters = real.counters
    assert real.size_bytes == naive.size_bytes
    if real.policy.evict is not None:
        assert counters.max_bytes <= real.budget_bytes
    assert (counters.inserted, counters.evicted) == (naive.inserted, naive.evicted)
    assert (counters.expired, counters.consumed) == (naive.expired, naive.consumed)
    assert counters.hits == naive.hits
    cached = sum(len(model.objects) for model in naive.caches.values())
    left = counters.evicted + counters.expired + counters.consumed + counters.dropped
    assert counters.inserted == left + cached
    left_bytes = counters.evicted_bytes + counters.expired_bytes + counters.consumed_bytes
    assert counters.inserted_bytes == left_bytes + counters.dropped_bytes + real.size_bytes


@dataclass
class Cached:
    result: Result
    cached_at: float
    subscribers: set[int]


@dataclass
class NaiveCache:
    newest: int
    subscribers: dict[int, int] = field(default_factory=dict)  # subscriber -> marker
    objects: list[Cached] = field(default_factory=list)
    last_access_at: float = 0.0
    ttl_s: float = LONGEST_TTL_S
    arrived: int = 0
    consumed: int = 0
    rates: tuple[float, float] | None = None


class NaiveCaches:
    """BAD's Algorithm 1 as printed: explicit subscriber sets, scans, append and then drop."""

    def __init__(self, policy: CachePolicy, budget_bytes: int) -> None:
        self.policy = policy
        self.budget_bytes = budget_bytes
        self.caches: dict[int, NaiveCache] = {}
        self.estimated_at = 0.0
        self.hits = self.evicted = self.expired = self.consumed = self.inserted = 0

    @property
    def size_bytes(self) -> int:
        return sum(o.result.size_bytes for c in self.caches.values() for o in c.objects)

    def candidate(self, backend: int) -> Candidate:
        cache = self.caches[backend]
        tail = cache.objects[0]
        return Candidate(
            backend=backend,
            attached=len(cache.subscribers),
            waiting=len(tail.subscribers),
            tail_size_bytes=tail.result.size_bytes,
            tail_created_at=tail.result.created_at,
            tail_cached_at=tail.cached_at,
            last_access_at=cache.last_access_at,
            ttl_s=cache.ttl_s,
        )

    def attach(self, backend: int, subscriber: int, marker: int) -> None:
        cache = self.caches[backend]
        cache.subscribers[subscriber] = marker
        for o in cache.objects:
            if o.result.position > marker:
                o.subscribers.add(subscriber)

    def detach(self, backend: int, subscriber: int) -> None:
        cache = self.caches[backend]
        del cache.subscribers[subscriber]
        for o in cache.objects:
            o.subscribers.discard(subscriber)
        self._consume(cache)

    def ack(self, backend: int, subscriber: int, position: int) -> None:
        cache = self.caches[backend]
        cache.subscribers[subscriber] = position
        for o in cache.objects:
            if o.result.position <= position:
                o.subscribers.discard(subscriber)
        self._consume(cache)

    def _consume(self, cache: NaiveCache) -> None:
        for o in [o for o in cache.objects if not o.subscribers]:
            cache.objects.remove(o)
            cache.consumed += o.result.size_bytes
            self.consumed += 1

    def put(self, result: Result, now: float) -> None:
        self.expire(now)
        cache = self.caches[result.backend]
        cache.newest = result.position
        waiting = {s for s, marker in cache.subscribers.items() if marker < result.position}
        if not cache.objects:
            cache.last_access_at = now
        too_large = result.size_bytes > self.budget_bytes
        if not waiting or too_large or not self.policy.admit(len(waiting)):
            cache.objects.clear()
            return
        cache.objects.append(Cached(result, now, waiting))
        cache.arrived += result.size_bytes
        self.inserted += 1
        while self.policy.evict is not None and self.size_bytes > self.budget_bytes:
            score = self.policy.evict
            victim = min(
                (self.candidate(b) for b, c in self.caches.items() if c.objects),
                key=lambda c: (score(c), *tie(c)),
            )
            dropped = self.caches[victim.backend].objects.pop(0)
            if dropped.result is result:  # never was in
                self.inserted -= 1
                cache.arrived -= result.size_bytes
            else:
                self.evicted += 1

    def get(self, backend: int, after: int, now: float) -> list[Result]:
        self.expire(now)
        cache = self.caches[backend]
        cache.last_access_at = now
        found = [o.result for o in cache.objects if o.result.position > after]
        self.hits += len(found)
        return found

    def expire(self, now: float) -> None:
        if self.policy.expire is None:
            return
        self._drop_expired(now)
        if now - self.estimated_at >= REESTIMATE_EVERY_S:
            elapsed = now - self.estimated_at
            self.estimated_at = now
            total = sum(len(c.subscribers) for c in self.caches.values())
            for cache in self.caches.values():
                arrival, consumption = cache.arrived / elapsed, cache.consumed / elapsed
                if cache.rates is not None:
                    arrival = moving_average(cache.rates[0], arrival, AVERAGE_WEIGHT)
                    consumption = moving_average(cache.rates[1], consumption, AVERAGE_WEIGHT)
                cache.rates = (arrival, consumption)
                cache.arrived = cache.consumed = 0
                share = len(cache.subscribers) / total if total else 0.0
                cache.ttl_s = self.policy.expire(
                    share, float(self.budget_bytes), growth(arrival, consumption)
                )
            self._drop_expired(now)

    def _drop_expired(self, now: float) -> None:
        for cache in self.caches.values():
            while cache.objects and cache.objects[0].cached_at + cache.ttl_s <= now:
                cache.objects.pop(0)
                self.expired += 1
