"""The plain request simulator against caches written in the plainest Python, and libCacheSim."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import SettingError
from tocsin.lab.simulators.plain_cache.simulator import Requests, fields_read, simulate_requests
from tocsin.lab.trace import RequestTrace
from tocsin.lab.trace.oracle_general import write_oracle_general
from tocsin.policies import CachePolicy, Candidate, parse_policy, policy_names
from tocsin.policies.registry import Chosen, Policy


def trace_of(rows: list[tuple[int, int]]) -> RequestTrace:
    """(object, size) a request."""
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    return RequestTrace(np.zeros(len(rows)), columns[0].astype(np.uint64), columns[1].copy())


def zipf(requests: int, objects: int, exponent: float, seed: int, unit: bool) -> RequestTrace:
    random = np.random.default_rng(seed)
    weight = 1 / np.arange(1, objects + 1) ** exponent
    chance = np.cumsum(weight / weight.sum())
    asked = random.permutation(objects)[np.searchsorted(chance, random.random(requests))]
    sizes = np.ones(objects, np.int64) if unit else random.integers(1, 10_000, objects)
    at_s = (np.arange(requests) // 100).astype(np.float64)
    return RequestTrace(at_s, asked.astype(np.uint64) * 977, sizes[asked])


def lru_hits(trace: RequestTrace, budget_bytes: int) -> list[bool]:
    """The textbook's, with an OrderedDict."""
    cached: OrderedDict[int, int] = OrderedDict()
    used, hits = 0, []
    for number, size in zip(trace.object.tolist(), trace.size_bytes.tolist(), strict=True):
        hits.append(number in cached)
        if number in cached:
            cached.move_to_end(number)
        elif size <= budget_bytes:
            while used + size > budget_bytes:
                used -= cached.popitem(last=False)[1]
            cached[number] = size
            used += size
    return hits


def scored_hits(
    trace: RequestTrace, score: Callable[[Candidate], float], budget_bytes: int
) -> tuple[int, int]:
    """Hits and evictions of any policy, by looking at all scores for each victim."""
    numbers = np.unique(trace.object, return_inverse=True)[1].tolist()
    cached: dict[int, Candidate] = {}
    inflation, hits, evicted = 0.0, 0, 0
    for at, (number, size) in enumerate(zip(numbers, trace.size_bytes.tolist(), strict=True)):
        one = cached.get(number)
        if one is not None:
            hits += 1
            one.waiting += 1
            one.last_access_at, one.inflation = float(at), inflation
        elif size <= budget_bytes:
            while sum(c.tail_size_bytes for c in cached.values()) + size > budget_bytes:
                victim = min(cached.values(), key=lambda c: (score(c), c.tail_cached_at, c.backend))
                inflation = score(victim)
                del cached[victim.backend]
                evicted += 1
            cached[number] = Candidate(
                backend=number,
                waiting=1,
                tail_size_bytes=size,
                tail_cached_at=float(at),
                last_access_at=float(at),
                inflation=inflation,
                fetch_delay_s=1.0,
            )
    return hits, evicted


def most_recent(candidate: Candidate) -> float:
    return -candidate.last_access_at


def largest(candidate: Candidate) -> float:
    return -candidate.tail_size_bytes


def in_turns(candidate: Candidate) -> float:
    """Scores that rise and fall."""
    return candidate.last_access_at % 7.0


OWN = {score.__name__: score for score in (most_recent, largest, in_turns)}
LRU = parse_policy("lru")


def policy_of(name: str) -> CachePolicy:
    if name in OWN:
        return CachePolicy(text=name, admit=LRU.admit, evict=Chosen(Policy(name, OWN[name])))
    return parse_policy(name)


def test_five_requests_by_hand() -> None:
    # Room for 10: a(4) b(4) in; a is hit; c(6) needs room: b is the least recent, 4+6 = 10 fits;
    # then b is missed again and pushes out a, the least recent.
    rows = [(1, 4), (2, 4), (1, 4), (3, 6), (2, 4)]
    outcome = simulate_requests(Requests(trace_of(rows)), LRU, 10)
    assert (outcome.hits, outcome.misses, outcome.evicted) == (1, 4, 2)
    assert (outcome.hit_bytes, outcome.miss_bytes, outcome.evicted_bytes) == (4, 18, 8)
    assert (outcome.cached_bytes, outcome.cache_max_bytes) == (10, 10)
    assert outcome.hit_ratio == 1 / 5
    assert outcome.row()["byte_hit_ratio"] == 4 / 22


def test_an_object_larger_than_the_cache_is_passed_by() -> None:
    outcome = simulate_requests(Requests(trace_of([(1, 4), (2, 11), (1, 4), (2, 11)])), LRU, 10)
    assert (outcome.hits, outcome.bypassed, outcome.evicted) == (1, 2, 0)


@pytest.mark.parametrize("unit", [True, False])
def test_lru_equals_an_ordered_dict_on_a_zipf_trace(unit: bool) -> None:
    trace = zipf(20_000, 1000, 0.9, 7, unit)
    budget_bytes = int(np.unique(trace.object).size * trace.size_bytes.mean() * 0.1)
    outcome = simulate_requests(Requests(trace), LRU, budget_bytes)
    assert outcome.hits == sum(lru_hits(trace, budget_bytes))
    assert outcome.hits > 1000


@pytest.mark.parametrize("name", ["lru", "fifo", "gdsf", *OWN])
def test_every_policy_equals_a_look_at_all_scores_on_a_zipf_trace(name: str) -> None:
    trace = zipf(2000, 60, 0.8, 1, unit=False)
    policy = policy_of(name)
    assert policy.evict is not None
    for part in (0.05, 0.3, 0.7, 1.0):
        budget_bytes = int(60 * trace.size_bytes.mean() * part)
        outcome = simulate_requests(Requests(trace), policy, budget_bytes)
        assert (outcome.hits, outcome.evicted) == scored_hits(
            trace, policy.evict.function, budget_bytes
        )


REQUEST = st.tuples(st.integers(0, 12), st.integers(1, 20))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["lru", "fifo", "gdsf", *OWN]),
    st.lists(REQUEST, min_size=1, max_size=150),
    st.integers(0, 80),
)
def test_every_policy_equals_a_look_at_all_scores(
    name: str, rows: list[tuple[int, int]], budget_bytes: int
) -> None:
    sizes = dict(rows)
    trace = trace_of([(number, sizes[number]) for number, _ in rows])
    policy = policy_of(name)
    assert policy.evict is not None
    outcome = simulate_requests(Requests(trace), policy, budget_bytes)
    assert (outcome.hits, outcome.evicted) == scored_hits(
        trace, policy.evict.function, budget_bytes
    )
    assert outcome.cache_max_bytes <= budget_bytes


@pytest.mark.parametrize("name", sorted(set(policy_names()) - {"lru", "fifo", "gdsf"}))
def test_policies_that_need_subscribers_are_refused_with_a_reason(name: str) -> None:
    with pytest.raises(SettingError, match="needs subscribers, and a request trace has none"):
        simulate_requests(Requests(trace_of([(1, 4)])), parse_policy(name), 10)


@pytest.mark.parametrize("text", ["admit=threshold(0.2,0.8) evict=lru", "evict=lru expire=ttl"])
def test_so_are_combinations_that_do(text: str) -> None:
    with pytest.raises(SettingError, match="needs subscribers"):
        simulate_requests(Requests(trace_of([(1, 4)])), parse_policy(text), 10)


def test_fields_read_through_another_function_are_seen() -> None:
    assert fields_read(indirect) == {"ttl_s", "last_access_at"}


def indirect(candidate: Candidate) -> float:
    return _inner(candidate) + candidate.last_access_at


def _inner(candidate: Candidate) -> float:
    return candidate.ttl_s


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_hits_equal_libcachesims_exactly(tmp_path: Path, policy: str, unit: bool) -> None:
    libcachesim = pytest.importorskip("libcachesim")
    trace = zipf(200_000, 10_000, 0.9, 3, unit)
    file = tmp_path / "zipf.oracleGeneral"
    write_oracle_general(trace, file)
    budget_bytes = int(trace.size_bytes.mean() * 1000)
    reader = libcachesim.TraceReader(str(file), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    theirs = {"lru": libcachesim.LRU, "fifo": libcachesim.FIFO}[policy](budget_bytes)
    misses = theirs.process_trace(reader)[0] * len(trace)
    ours = simulate_requests(Requests(trace), parse_policy(policy), budget_bytes)
    assert ours.misses == round(misses)
    assert abs(misses - round(misses)) < 1e-6
