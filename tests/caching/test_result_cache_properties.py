"""The result cache does what Algorithm 1 with explicit subscriber sets does, for every policy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from naive_cache import NaiveCache, NaiveCaches

from tocsin.caching import ResultCache
from tocsin.model import Result
from tocsin.policies import parse_policy

POLICIES = ["lru", "lsc", "ttl", "none", "evict=lru expire=ttl", "evict=lsc expire=ttl"]
STEP = st.tuples(
    st.sampled_from(["put", "put", "put", "get", "ack", "ack", "join", "leave", "wait"]),
    st.integers(0, 3),  # backend
    st.integers(0, 9),  # subscriber, chosen among those there
    st.integers(1, 40),  # size, or how far an ack goes
    st.sampled_from([0.0, 1.0, 7.0, 150.0]),  # time that passes before
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(POLICIES), st.integers(0, 120), st.lists(STEP, max_size=60))
def test_result_cache_equals_algorithm_1(
    text: str, budget_bytes: int, steps: list[tuple[str, int, int, int, float]]
) -> None:
    policy = parse_policy(text)
    real, naive = ResultCache(policy, budget_bytes), NaiveCaches(policy, budget_bytes)
    for backend in range(4):
        real.open(backend, 0)
        naive.caches[backend] = NaiveCache(newest=0)
    now, names = 0.0, 0
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
