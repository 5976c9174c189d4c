"""The compiled kernel is the live broker's core, event for event, under every policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.workloads import workloads
from tocsin.lab.simulators.result_cache.live import run_live
from tocsin.lab.simulators.result_cache.simulator import simulate_steps
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy, policy_names

COMBINED = [
    "evict=lsc expire=ttl",
    "evict=return-rate expire=ttl",
    "admit=threshold(0.2,0.8) evict=lsc",
    "admit=mean(3) evict=lru",
    "admit=buffer(0.5,0.5) evict=gdsf",
]
NETWORK = Network(cluster_rtt_s=0.5, cluster_bytes_per_s=1000.0)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([*policy_names(), *COMBINED]), st.integers(0, 250), workloads())
def test_kernel_equals_core_event_for_event(
    text: str, budget_bytes: int, workload: Workload
) -> None:
    policy = parse_policy(text)
    compiled, compiled_steps = simulate_steps(workload, policy, budget_bytes, NETWORK)
    live, live_steps = run_live(workload, policy, budget_bytes, NETWORK)
    for name in ("hits", "misses", "size_bytes", "evicted"):
        np.testing.assert_array_equal(compiled_steps[name], live_steps[name], err_msg=name)
    # Latencies of a group are one product there and a sum here.
    summed = replace(live, seconds=compiled.seconds, latency_mean_s=compiled.latency_mean_s)
    assert compiled == summed
    assert abs(compiled.latency_mean_s - live.latency_mean_s) <= 1e-9 * live.latency_mean_s


@pytest.mark.parametrize("text", ["return-rate", "ttl", "evict=return-rate expire=ttl"])
def test_kernel_equals_core_over_hours(text: str) -> None:
    """Re-estimates fall between the gets of one arrival."""
    settings = EdgeSettings(
        subscribers=60,
        subscriptions_each=5,
        backends=20,
        hours=3.0,
        size_bytes=(10, 500),
        interval_s=(200.0, 400.0),
    )
    workload = edge_workload(settings, seed=1)
    _, compiled_steps = simulate_steps(workload, parse_policy(text), 5000)
    _, live_steps = run_live(workload, parse_policy(text), 5000)
    np.testing.assert_array_equal(compiled_steps, live_steps)
