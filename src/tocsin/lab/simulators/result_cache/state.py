"""Everything that the kernel reads and changes: one record for each cache, object, frontend
subscription and subscriber, and one for the run.

Positions count from 0 here: a marker is the number of objects taken, `tail` and `next` are
positions in the cache's own part of `objects`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import asdict

from tocsin.lab.jit.heap import new_heap
from tocsin.lab.jit.policies import record_of, record_of_chosen
from tocsin.lab.jit.records import record_dtype, records
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import PUBLISH, Workload
from tocsin.policies import CachePolicy, Candidate

CACHE = record_dtype(
    Candidate,
    [
        ("first", "i8"),  # where its objects begin
        ("tail", "i8"),
        ("next", "i8"),
        ("arrivals", "i8"),
        ("arrival_bytes", "i8"),
        ("consumption_bytes", "i8"),
        ("consumption_rate", "f8"),
        ("measured", "i8"),
        ("marked", "i8"),  # 1: its score is old, 2: its deadline is
    ],
)
OBJECT = record_dtype(
    [
        ("size_bytes", "i8"),
        ("upto_bytes", "i8"),  # sizes of all before and this one
        ("cached_at", "f8"),
        ("created_at", "f8"),
        ("standing", "i8"),  # how many are away that have taken all before this one, not this
        ("away_since_ms", "i8"),  # the sum over them
    ]
)
FRONTEND = record_dtype(
    [("marker", "i8"), ("away_since", "f8"), ("backend", "i4"), ("next", "i4"), ("before", "i4")]
)
SUBSCRIBER = record_dtype([("online", "i4"), ("first", "i4"), ("last", "i4")])
_RULES = """budget_bytes caches evicts expires observes looks"""
_COUNTS = """hits hit_bytes misses miss_bytes gets gets_with_miss volume_objects volume_bytes
    pulled_bytes inserted inserted_bytes bypassed evicted evicted_bytes expired expired_bytes
    consumed consumed_bytes dropped dropped_bytes size_bytes max_bytes estimates ttls events
    marks late_marks"""
_NUMBERS = """cluster_rtt_s cluster_bytes_per_s subscriber_rtt_s
    subscriber_bytes_per_s"""
_MEASURES = """byte_s overshoot_byte_s held_s ttl_s planned_bytes latency_s
    measured_at estimated_at inflation usual_ttl_s hold_s"""
RUN = record_dtype(
    [(name, "i8") for name in f"{_RULES} {_COUNTS}".split()]
    + [(name, "f8") for name in f"{_NUMBERS} {_MEASURES}".split()]
)
"""One run: its rules, what it has counted and measured."""
STEP = record_dtype([("hits", "i8"), ("misses", "i8"), ("size_bytes", "i8"), ("evicted", "i8")])
ADMISSION, EVICTION, EXPIRY = range(3)
"""Families, in the order of their policies' records."""

LATENCY_BINS = 1200
LATENCY_RATIO = 1.02  # of one bin's end to the next: percentiles are right to 1 %
SHORTEST_LATENCY_S = 1e-4


class State(NamedTuple):
    """In the kernel's order."""

    caches: Any
    objects: Any
    frontends: Any
    subscribers: Any
    runs: Any
    marks: Any
    victims: Any
    deadlines: Any
    policies: Any  # their records, by family


def state_of(workload: Workload, policy: CachePolicy, budget_bytes: int, network: Network) -> State:
    """Before the first event."""
    published = workload.subject[workload.kind == PUBLISH]
    slots = np.bincount(published, minlength=workload.backends) + 1  # one more: the marker after
    caches = records(workload.backends, CACHE)
    caches["backend"] = np.arange(workload.backends)
    caches["first"] = np.concatenate([[0], np.cumsum(slots)[:-1]])
    subscribers = records(workload.subscribers, SUBSCRIBER)
    subscribers["first"] = subscribers["last"] = -1
    run = records(1, RUN)
    run["budget_bytes"] = budget_bytes
    run["caches"] = policy.caches
    run["evicts"] = policy.evict is not None
    run["expires"] = policy.expire is not None
    declared = policy.evict.policy.declared if policy.evict else {}
    run["observes"] = "absence" in declared
    run["looks"] = "look" in declared
    for name, number in asdict(network).items():
        run[name] = number
    return State(
        caches,
        records(int(slots.sum()), OBJECT),
        records(len(workload.owners), FRONTEND),
        subscribers,
        run,
        np.zeros((2, workload.backends), np.int64),
        new_heap(workload.backends),
        new_heap(workload.backends),
        (
            record_of_chosen(policy.admit),
            record_of_chosen(policy.evict) if policy.evict else record_of(None),
            record_of_chosen(policy.time_to_live),
        ),
    )
