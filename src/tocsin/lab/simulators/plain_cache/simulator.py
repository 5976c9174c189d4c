"""A plain cache under a request trace, compiled: a miss is fetched and cached, smallest scores
make room. With the very functions that the broker's caches use, so that policies can be compared
with the rest of the world's on the world's own traces.

Time is the number of the request. Knows no subscribers: a policy that asks for them is refused.
"""

from __future__ import annotations

import time
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pandas as pd
from msgspec import Struct
from msgspec.structs import asdict

from tocsin.caching.ratios import HitRatios
from tocsin.errors import SettingError
from tocsin.lab.jit.functions import JIT
from tocsin.lab.jit.policies import chosen_callback, record_of_chosen
from tocsin.lab.jit.records import records
from tocsin.lab.simulators.plain_cache import kernel
from tocsin.lab.trace.requests import RequestTrace
from tocsin.policies import CachePolicy, Candidate
from tocsin.policies.registry import Chosen
from tocsin.policies.result.eviction import Score

CANDIDATE_TYPE = numba.from_dtype(kernel.CANDIDATE) if JIT else "candidate"

KNOWN = {"backend", "tail_size_bytes", "tail_cached_at", "last_access_at", "inflation"}
"""What a plain cache can tell a policy of an object."""
COUNTED = {"waiting", "fetch_delay_s"}
"""What it can tell a policy that counts requests where nobody subscribes: each waits, and a fetch
takes 1 for all."""


class RequestOutcome(HitRatios, Struct, frozen=True, kw_only=True):
    requests: int
    hits: int
    hit_bytes: int
    misses: int
    miss_bytes: int
    inserted: int
    bypassed: int  # larger than the whole cache
    evicted: int
    evicted_bytes: int
    cached_bytes: int  # at the end
    cache_max_bytes: int
    seconds: float  # that the run took

    @property
    def request_bytes(self) -> int:
        return self.hit_bytes + self.miss_bytes

    def row(self) -> dict[str, int | float]:
        return {
            "hit_ratio": self.hit_ratio,
            "byte_hit_ratio": self.byte_hit_ratio,
            **asdict(self),
        }


class Requests:
    """A request trace made ready for many runs: objects are numbers from 0."""

    def __init__(self, trace: RequestTrace) -> None:
        numbers, known = pd.factorize(trace.object)  # by hashing: five times faster than sorting
        self.objects = len(known)
        self.object = numbers.astype(np.int32)
        self.size_bytes = np.ascontiguousarray(trace.size_bytes, np.int64)

    def __len__(self) -> int:
        return len(self.object)


def simulate_requests(requests: Requests, policy: CachePolicy, budget_bytes: int) -> RequestOutcome:
    if budget_bytes < 0:
        raise SettingError(f"the cache size is {budget_bytes} bytes", field="size")
    evict = score_of(policy)
    score = chosen_callback(evict, numba.float64, CANDIDATE_TYPE)
    totals = records(1, kernel.TOTALS)
    state = (
        records(requests.objects, kernel.OBJECT),
        *kernel.new_ranking(requests.objects),
        records(1, kernel.CANDIDATE),
        totals,
    )
    started = time.perf_counter()
    policies = record_of_chosen(evict)
    kernel.run(requests.object, requests.size_bytes, state, budget_bytes, policies, score)
    seconds = time.perf_counter() - started
    counts = {name: totals[name][0].item() for name in kernel.TOTALS.names or ()}
    same = set(RequestOutcome.__struct_fields__) & set(counts)
    return RequestOutcome(
        **{name: counts[name] for name in same},
        requests=len(requests),
        cached_bytes=counts["size_bytes"],
        cache_max_bytes=counts["max_bytes"],
        seconds=seconds,
    )


def score_of(policy: CachePolicy) -> Chosen[Score]:
    """The eviction policy, if requests alone are enough for it."""
    if policy.evict is None or policy.expire is not None:
        raise _unsuitable(policy, "it does not say what is evicted, or needs rates of publication")
    if policy.admit.policy.declared.get("admits") is not True:
        raise _unsuitable(policy, "what it admits depends on how many subscribers wait")
    declared = policy.evict.policy.declared
    known = KNOWN | (COUNTED if declared.get("counts_requests") else set())
    hooks = {"absence", "look"} & set(declared)
    if hooks:
        raise _unsuitable(policy, f"it observes {', '.join(sorted(hooks))}")
    unknown = sorted(fields_read(policy.evict.function) - known)
    if unknown:
        raise _unsuitable(policy, f"it looks at {', '.join(unknown)}")
    return policy.evict


def fields_read(function: Any) -> set[str]:
    """The candidate's fields that a policy reads, itself or through functions it calls."""
    names, seen, waiting = set(), set(), [function]
    while waiting:
        called = waiting.pop()
        if not isinstance(called, FunctionType) or called in seen:
            continue
        seen.add(called)
        names |= set(called.__code__.co_names)
        waiting += [called.__globals__.get(name) for name in called.__code__.co_names]
    return names & set(Candidate.__struct_fields__)


def _unsuitable(policy: CachePolicy, reason: str) -> SettingError:
    return SettingError(
        f"{policy.text!r} needs subscribers, and a request trace has none: {reason}",
        field="policy",
        hint="replay a trace of events (tocsin lab trace record), or choose lru, fifo or gdsf",
    )
