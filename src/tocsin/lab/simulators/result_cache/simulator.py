"""One run of a cache policy over a workload, compiled; its outcome in numbers.

The model is that of BAD V: a get is instantaneous. Whoever is connected takes each object the
moment it arrives; whoever comes back gets everything after its marker: the cached suffix is hit,
the rest is missed and not cached again.
"""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.jit.functions import JIT
from tocsin.lab.jit.policies import chosen_callback, unused_callback
from tocsin.lab.jit.records import records
from tocsin.lab.simulators.result_cache import kernel
from tocsin.lab.simulators.result_cache.state import (
    CACHE,
    LATENCY_BINS,
    LATENCY_RATIO,
    RUN,
    SHORTEST_LATENCY_S,
    STEP,
    state_of,
)
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import CachePolicy

CACHE_TYPE = numba.from_dtype(CACHE) if JIT else "cache"


class Outcome(Struct, frozen=True, kw_only=True):
    """What a run did. Latencies are of gets; an object delivered is a request, hit or missed."""

    requests: int
    hits: int
    hit_bytes: int
    misses: int
    miss_bytes: int
    gets: int
    gets_with_miss: int
    volume_objects: int  # results made for somebody
    volume_bytes: int
    fetched_bytes: int  # from the cluster: pulled ahead to be cached, and missed
    inserted: int
    inserted_bytes: int
    bypassed: int
    evicted: int
    evicted_bytes: int
    expired: int
    expired_bytes: int
    consumed: int
    consumed_bytes: int
    dropped: int
    dropped_bytes: int
    cached_bytes: int  # at the end
    cache_mean_bytes: float
    cache_max_bytes: int
    overshoot_mean_bytes: float  # above the budget
    holding_mean_s: float  # of objects that left
    ttl_mean_s: float  # T_i as it was when an object was cached, over those objects
    rho_t_bytes: float  # Σρ_i·T_i, mean over re-estimates
    latency_mean_s: float
    latency_p50_s: float
    latency_p90_s: float
    latency_p99_s: float
    events: int
    seconds: float  # that the run took

    @property
    def hit_ratio(self) -> float:
        return self.hits / self.requests if self.requests else 0.0

    def row(self) -> dict[str, int | float]:
        return {"hit_ratio": self.hit_ratio, **asdict(self)}


def simulate(
    workload: Workload,
    policy: CachePolicy,
    budget_bytes: int,
    network: Network | None = None,
) -> Outcome:
    return simulate_steps(workload, policy, budget_bytes, network, record=False)[0]


def simulate_steps(
    workload: Workload,
    policy: CachePolicy,
    budget_bytes: int,
    network: Network | None = None,
    *,
    record: bool = True,
) -> tuple[Outcome, NDArray[Any]]:
    """The outcome, and what stood after each event (`STEP`), if that is recorded."""
    network = network or Network()
    if not 0 <= budget_bytes < 2**63:  # kernels count in 64 bits
        raise SettingError(
            f"the cache size is {budget_bytes} bytes", field="size", hint="0 or more bytes"
        )
    state = state_of(workload, policy, budget_bytes, network)
    latencies = np.zeros(LATENCY_BINS, np.int64)
    step_log = records(len(workload) if record else 0, STEP)
    started = time.perf_counter()
    kernel.simulate(
        workload.at,
        workload.kind,
        workload.subject,
        workload.value,
        workload.owners,
        *state,
        latencies,
        step_log,
        *_callbacks(policy),
    )
    seconds = time.perf_counter() - started
    totals = {name: state.runs[name][0].item() for name in RUN.names or ()}
    return outcome_of(totals, latencies, workload.duration_s, budget_bytes, seconds), step_log


def _callbacks(policy: CachePolicy) -> list[Any]:
    """In the kernel's order: score, look, time to live, reestimate, admit, absence."""
    number, count, nothing = numba.float64, numba.int64, numba.void

    def eviction(hook: str | None, answer: Any, *observed: Any) -> Any:
        if policy.evict is None:
            return unused_callback(answer, *observed)
        return chosen_callback(policy.evict, answer, *observed, hook=hook)

    return [
        eviction(None, number, CACHE_TYPE),
        eviction("look", numba.boolean, CACHE_TYPE, count, count, count),
        chosen_callback(policy.time_to_live, number, number, number, number),
        eviction("reestimate", nothing),
        chosen_callback(policy.admit, numba.boolean, count),
        eviction("absence", nothing, number, numba.boolean),
    ]


def outcome_of(
    totals: dict[str, Any],
    latencies: NDArray[np.int64],
    duration_s: float,
    budget_bytes: int,
    seconds: float,
) -> Outcome:
    """From what was counted (`RUN`)."""
    rest_s = max(0.0, duration_s - totals["measured_at"])
    size_bytes = totals["size_bytes"]
    byte_s = totals["byte_s"] + size_bytes * rest_s
    overshoot_byte_s = totals["overshoot_byte_s"] + max(0, size_bytes - budget_bytes) * rest_s
    left = sum(totals[name] for name in ("evicted", "expired", "consumed", "dropped"))
    same = set(Outcome.__struct_fields__) & set(totals)
    return Outcome(
        **{name: totals[name] for name in same},
        requests=totals["hits"] + totals["misses"],
        fetched_bytes=totals["pulled_bytes"] + totals["miss_bytes"],
        cached_bytes=size_bytes,
        cache_mean_bytes=byte_s / duration_s if duration_s else 0.0,
        cache_max_bytes=totals["max_bytes"],
        overshoot_mean_bytes=overshoot_byte_s / duration_s if duration_s else 0.0,
        holding_mean_s=totals["held_s"] / left if left else 0.0,
        ttl_mean_s=totals["ttl_s"] / totals["ttls"] if totals["ttls"] else 0.0,
        rho_t_bytes=totals["planned_bytes"] / totals["estimates"] if totals["estimates"] else 0.0,
        latency_mean_s=totals["latency_s"] / totals["gets"] if totals["gets"] else 0.0,
        latency_p50_s=_percentile(latencies, 0.50),
        latency_p90_s=_percentile(latencies, 0.90),
        latency_p99_s=_percentile(latencies, 0.99),
        seconds=seconds,
    )


def _percentile(latencies: NDArray[np.int64], part: float) -> float:
    """The middle of the bin in which it lies."""
    total = int(latencies.sum())
    if not total:
        return 0.0
    place = int(np.searchsorted(np.cumsum(latencies), part * total))
    return float(SHORTEST_LATENCY_S * LATENCY_RATIO ** (place + 0.5))
