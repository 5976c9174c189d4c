"""A run of the simulator: what must hold under every policy, and at the ends of cache sizes.

That it equals the live core event for event is shown in test_kernel_equals_core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from lab.small_day import BUDGET_BYTES, EVERY_POLICY, EVICTING, NETWORK, first_minutes, small_day
from tocsin.errors import SettingError
from tocsin.lab.simulators.result_cache.simulator import Outcome, simulate, simulate_steps
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload
from tocsin.policies import parse_policy

EVERYTHING_BYTES = 10**12  # more than is ever made
CACHING_ALL = [text for text in EVERY_POLICY if text != "none" and "admit" not in text]
BUDGETS = [0, 10_000, BUDGET_BYTES, 200_000, EVERYTHING_BYTES]


@cache
def outcome(text: str, budget_bytes: int = BUDGET_BYTES) -> Outcome:
    return simulate(small_day(), parse_policy(text), budget_bytes, NETWORK)


@cache
def deliveries() -> tuple[int, int, int]:
    """Objects, bytes and gets by which they reach somebody, counted one by one."""
    workload = small_day()
    pending: dict[int, list[int]] = {}  # frontend -> sizes of what it has not taken
    backends: dict[int, int] = {}
    online: set[int] = set()
    objects = size_bytes = gets = 0
    columns = (workload.kind, workload.subject, workload.value)
    for kind, subject, value in zip(*(column.tolist() for column in columns), strict=True):
        if kind == PUBLISH:
            for frontend, backend in backends.items():
                if backend == subject:
                    pending[frontend].append(value)
        elif kind == ONLINE:
            online.add(subject)
        elif kind == OFFLINE:
            online.remove(subject)
        elif kind == SUBSCRIBE:
            backends[subject], pending[subject] = value, []
        else:
            del backends[subject], pending[subject]
        for frontend, sizes in pending.items():
            if sizes and workload.owners[frontend] in online:
                objects, size_bytes, gets = objects + len(sizes), size_bytes + sum(sizes), gets + 1
                sizes.clear()
    return objects, size_bytes, gets


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_everything_due_is_delivered_by_a_hit_or_a_miss(text: str) -> None:
    for budget_bytes in BUDGETS:
        run = outcome(text, budget_bytes)
        delivered = run.hits + run.misses, run.hit_bytes + run.miss_bytes, run.gets
        assert delivered == deliveries()
        assert run.requests == run.hits + run.misses
        assert run.hit_ratio == run.row()["hit_ratio"] == run.hits / run.requests


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_what_comes_in_goes_out_or_is_there(text: str) -> None:
    for budget_bytes in BUDGETS:
        run = outcome(text, budget_bytes)
        left = run.evicted + run.expired + run.consumed + run.dropped
        left_bytes = run.evicted_bytes + run.expired_bytes + run.consumed_bytes + run.dropped_bytes
        assert run.inserted_bytes == left_bytes + run.cached_bytes
        assert run.inserted >= left
        assert (run.inserted == left) == (run.cached_bytes == 0)
        if text != "none":
            assert run.inserted + run.bypassed == run.volume_objects


@pytest.mark.parametrize("text", EVERY_POLICY)
def test_no_room_means_no_hit(text: str) -> None:
    run = outcome(text, 0)
    assert (run.hits, run.inserted, run.cache_max_bytes) == (0, 0, 0)
    assert run.gets_with_miss == run.gets


@pytest.mark.parametrize("text", CACHING_ALL)
def test_room_for_all_means_no_miss_for_whoever_was_attached(text: str) -> None:
    run = outcome(text, EVERYTHING_BYTES)
    assert (run.misses, run.bypassed, run.evicted, run.expired, run.dropped) == (0, 0, 0, 0, 0)
    assert run.fetched_bytes == run.volume_bytes
    assert run.consumed_bytes + run.cached_bytes == run.volume_bytes


@pytest.mark.parametrize("text", EVICTING)
def test_eviction_keeps_the_budget_after_every_event(text: str) -> None:
    for budget_bytes in (10_000, BUDGET_BYTES):
        run, steps = simulate_steps(small_day(), parse_policy(text), budget_bytes, NETWORK)
        assert steps["size_bytes"].max() <= run.cache_max_bytes <= budget_bytes
        assert run.overshoot_mean_bytes == 0
        assert 0 < run.cache_mean_bytes <= budget_bytes


def test_expiry_alone_overshoots_and_says_so() -> None:
    run = outcome("ttl")
    assert run.cache_max_bytes > BUDGET_BYTES
    assert 0 < run.overshoot_mean_bytes < run.cache_mean_bytes


def test_without_a_cache_only_what_is_missed_is_fetched() -> None:
    run = outcome("none")
    assert run.fetched_bytes == run.miss_bytes == deliveries()[1]


@pytest.mark.parametrize("text", [text for text in EVERY_POLICY if text != "none"])
def test_with_a_cache_everything_is_fetched_once_and_what_is_missed_again(text: str) -> None:
    run = outcome(text)
    assert run.fetched_bytes == run.volume_bytes + run.miss_bytes


@pytest.mark.parametrize("text", CACHING_ALL)
def test_no_size_fetches_less_than_room_for_all_or_more_than_no_room(text: str) -> None:
    fetched = [outcome(text, budget_bytes).fetched_bytes for budget_bytes in BUDGETS]
    assert min(fetched) == fetched[-1] < fetched[0] == max(fetched)


def test_latency_of_one_get_is_worked_by_hand() -> None:
    # Connected, 1 MB arrives and fits: 0.25 + 1 MB / (1 MB/s) = 1.25 s.
    # The next, 2 MB, does not: 0.25 + 2 + (0.5 + 2 MB / (10 MB/s)) = 2.95 s. Together 4.2 s.
    events = [
        (0.0, ONLINE, 0, 0),
        (0.0, SUBSCRIBE, 0, 0),
        (1.0, PUBLISH, 0, 1_000_000),
        (2.0, PUBLISH, 0, 2_000_000),
        (3.0, UNSUBSCRIBE, 0, 0),
        (4.0, PUBLISH, 0, 5),  # for nobody: it is not even made
    ]
    workload = Workload.of(events, [0], 1, 1).check()
    run = simulate(workload, parse_policy("lsc"), 1_500_000)
    assert (run.hits, run.misses, run.gets, run.gets_with_miss) == (1, 1, 2, 1)
    assert run.latency_mean_s == pytest.approx(4.2 / 2)
    assert run.latency_p50_s == pytest.approx(1.25, rel=0.011)
    assert run.latency_p99_s == pytest.approx(2.95, rel=0.011)
    assert (run.volume_objects, run.volume_bytes, run.cached_bytes) == (2, 3_000_000, 0)
    assert run.cache_max_bytes == 1_000_000  # taken by its only reader the moment it came


def test_times_and_sizes_are_means_over_the_whole_run() -> None:
    # Away at first. 10 bytes from 10 to 35 s, 10 more from 20 to 35 s, 10 from 45 s to the end at
    # 50 s: (250 + 150 + 50) / 50 = 9 bytes on average. For 15 s there were 5 above the budget:
    # 75 / 50 = 1.5. The two that left had stayed 25 and 15 s.
    # At 20 s something did not fit: ρ = 10 bytes / 20 s, T = 15 / 0.5 = 30 s, so ρT = 15 bytes.
    # The second and the third object were given that T, the first none.
    events = [
        (0.0, SUBSCRIBE, 0, 0),
        (10.0, PUBLISH, 0, 10),
        (20.0, PUBLISH, 0, 10),
        (35.0, ONLINE, 0, 0),
        (36.0, OFFLINE, 0, 0),
        (45.0, PUBLISH, 0, 10),
    ]
    run = simulate(Workload.of(events, [0], 1, 1, duration_s=50.0), parse_policy("ttl"), 15)
    assert (run.hits, run.gets, run.consumed, run.cached_bytes) == (2, 1, 2, 10)
    assert run.cache_mean_bytes == pytest.approx(9.0)
    assert run.cache_max_bytes == 20
    assert run.overshoot_mean_bytes == pytest.approx(1.5)
    assert run.holding_mean_s == pytest.approx(20.0)
    assert run.ttl_mean_s == pytest.approx(30.0)
    assert run.rho_t_bytes == pytest.approx(15.0)
    assert run.events == 6


def test_an_empty_run_has_no_ratios() -> None:
    run = simulate(Workload.of([(0.0, ONLINE, 0, 0)], [], 1, 1, 0.0), parse_policy("ttl"), 100)
    assert run.requests == 0
    assert all(run.row()[name] == 0 for name in ("hit_ratio", "latency_mean_s", "latency_p99_s"))
    assert all(run.row()[name] == 0 for name in ("cache_mean_bytes", "ttl_mean_s", "rho_t_bytes"))


@pytest.mark.parametrize("budget_bytes", [-1, 2**63])
def test_a_size_that_cannot_be_is_refused(budget_bytes: int) -> None:
    with pytest.raises(SettingError, match=f"the cache size is {budget_bytes} bytes") as refused:
        simulate(small_day(), parse_policy("lsc"), budget_bytes)
    assert refused.value.field == "size"


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster_rtt_s": -1.0},
        {"cluster_bytes_per_s": 0.0},
        {"subscriber_rtt_s": float("inf")},
        {"subscriber_bytes_per_s": float("nan")},
    ],
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError) as refused:
        Network(**wrong)
    assert [refused.value.field] == list(wrong)


PLAIN = """
import json
from lab.test_simulator import first_rows
from tocsin.lab.jit.functions import JIT
assert not JIT
print(json.dumps(first_rows()))
"""


def first_rows() -> dict[str, dict[str, int | float]]:
    """Outcomes but for the time they took."""
    runs = {text: simulate(first_minutes(), parse_policy(text), 10_000) for text in EVERY_POLICY}
    return {text: {**run.row(), "seconds": 0} for text, run in runs.items()}


def test_plain_python_gives_the_same_answers_as_compiled_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compiled = first_rows()
    assert json.loads(done.stdout) == compiled
    assert all(row["evicted"] + row["expired"] > 50 for row in compiled.values() if row["hits"])
