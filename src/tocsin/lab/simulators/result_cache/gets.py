"""What a get costs: hits, misses and how long it took."""

from __future__ import annotations

import math
from typing import Any

from tocsin.lab.jit.functions import compiled
from tocsin.lab.simulators.result_cache.estimates import fetch_took
from tocsin.lab.simulators.result_cache.state import (
    LATENCY_BINS,
    LATENCY_RATIO,
    SHORTEST_LATENCY_S,
)


@compiled
def got(
    cache: Any, run: Any, latencies: Any, now: float,
    hits: int, hit_bytes: int, misses: int, miss_bytes: int, times: int,
) -> None:  # fmt: skip
    """So many gets alike, one after the other."""
    run.hits += hits * times
    run.hit_bytes += hit_bytes * times
    run.misses += misses * times
    run.miss_bytes += miss_bytes * times
    run.gets += times
    latency_s = run.subscriber_rtt_s + (hit_bytes + miss_bytes) / run.subscriber_bytes_per_s
    if misses:
        run.gets_with_miss += times
        fetch_s = run.cluster_rtt_s + miss_bytes / run.cluster_bytes_per_s
        latency_s += fetch_s
        taken_s = (now + fetch_s) - now  # as a clock would tell it
        for _ in range(times):
            before = cache.fetch_delay_s
            fetch_took(cache, taken_s)
            if cache.fetch_delay_s == before:
                break
    run.latency_s += latency_s * times
    steps = math.log(max(latency_s, SHORTEST_LATENCY_S) / SHORTEST_LATENCY_S)
    latencies[min(int(steps / math.log(LATENCY_RATIO)), LATENCY_BINS - 1)] += times
