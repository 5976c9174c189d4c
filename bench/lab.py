"""The lab's simulators: events a second of BAD's day, and requests a second of a plain cache.

The day's baseline is the live broker's core in plain Python under a smaller city's workload, on
which the kernel must give the same hits. A cache's baseline is libCacheSim, in the same process, on
the same trace: both must miss the same requests.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.findings import Finding
from tocsin.lab.simulators.plain_cache.simulator import Requests, simulate_requests
from tocsin.lab.simulators.result_cache.live import run_live
from tocsin.lab.simulators.result_cache.simulator import Outcome, simulate
from tocsin.lab.trace import RequestTrace
from tocsin.lab.trace.oracle_general import write_oracle_general
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy

POLICIES = ("lru", "lsc", "ttl")
SMALL_CITY = EdgeSettings(
    subscribers=500, backends=50, hours=0.5, size_bytes=(100, 5_000), interval_s=(10.0, 60.0)
)  # small objects: the plain core holds them all in memory
DAY_BYTES = 500_000_000
ROUNDS = 5
OBJECTS = 100_000
EXPONENT = 0.9
SHARE = 0.1  # of all objects' bytes that fit into the cache
HASH_POWER = 14  # libCacheSim's table for 10,000 cached objects; its default is five times slower


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    rounds = 3 if quick else ROUNDS
    return [*_days(quick, rounds, say), *_caches(quick, rounds, say)]


# -- BAD's day ------------------------------------------------------------------------------------


def _days(quick: bool, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    settings = EdgeSettings(subscribers=1000, backends=200, hours=1.0) if quick else EdgeSettings()
    say("making the workloads")
    small, day = edge_workload(SMALL_CITY, 1), edge_workload(settings, 1)
    small_bytes = int(DAY_BYTES * _bytes_a_second(small) / _bytes_a_second(day))
    findings = []
    for name in POLICIES:
        policy = parse_policy(name)
        say(f"{name}: the plain core")
        plain = run_live(small, policy, small_bytes)[0]
        same = simulate(small, policy, small_bytes)  # compiles, too
        if (plain.hits, plain.misses) != (same.hits, same.misses):
            raise AssertionError(f"{name}: the kernel and the core disagree: {plain} {same}")
        say(f"{name}: the kernel")
        days = [simulate(day, policy, DAY_BYTES) for _ in range(rounds)]
        whole = [_rate(one) for one in days]
        findings.append(
            Finding(
                claim=f"simulated events, {name}",
                unit="/s",
                ours=statistics.median(whole),
                baseline=_rate(plain),
                baseline_is="the live core in plain Python, on a smaller city",
                details={
                    "rounds": whole,
                    "events": {"baseline": plain.events, "ours": days[0].events},
                    "on_the_smaller_city": _rate(simulate(small, policy, small_bytes)),
                },
            )
        )
    return findings


def _rate(outcome: Outcome) -> float:
    return outcome.events / outcome.seconds


def _bytes_a_second(workload: Workload) -> float:
    return float(workload.value[workload.kind == 0].sum()) / workload.duration_s


# -- a plain cache --------------------------------------------------------------------------------


def _caches(quick: bool, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    trace = zipf_trace(200_000 if quick else 2_000_000, seed=1)
    budget_bytes = int(OBJECTS * trace.size_bytes.mean() * SHARE)
    library = libcachesim()
    findings = []
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        file = Path(folder) / "zipf.oracleGeneral"
        write_oracle_general(trace, file)
        for name, theirs in (("lru", library.LRU), ("gdsf", library.GDSF)):
            say(f"{name}: requests")
            policy = parse_policy(name)
            simulate_requests(Requests(trace), policy, budget_bytes)  # compiles
            taken: dict[str, list[float]] = {"first": [], "again": [], "theirs": []}
            for _ in range(rounds):  # in turns: the machine's mood changes
                began = time.perf_counter()
                ours = simulate_requests(Requests(trace), policy, budget_bytes)
                taken["first"].append(time.perf_counter() - began)
                taken["again"].append(ours.seconds)
                reader = library.TraceReader(str(file), library.TraceType.ORACLE_GENERAL_TRACE)
                cache = theirs(budget_bytes, hashpower=HASH_POWER)
                began = time.perf_counter()
                misses = cache.process_trace(reader)[0] * len(trace)
                taken["theirs"].append(time.perf_counter() - began)
            # GDSF's scores are sums of fractions: ties fall differently.
            if abs(ours.misses - misses) > (0.5 if name == "lru" else 0.001 * len(trace)):
                raise AssertionError(f"{name}: {ours.misses} misses, libCacheSim has {misses}")
            rate = {key: len(trace) / statistics.median(s) for key, s in taken.items()}
            for key, what in (("first", "first run"), ("again", "further runs")):
                findings.append(
                    Finding(
                        claim=f"requests, {name}, {what}",
                        unit="/s",
                        ours=rate[key],
                        baseline=rate["theirs"],
                        baseline_is="libCacheSim, the same trace",
                        details={
                            "rounds_s": taken,
                            "requests": len(trace),
                            "hit_ratio": ours.hit_ratio,
                            "misses": {"ours": ours.misses, "baseline": misses},
                        },
                    )
                )
    return findings


def zipf_trace(requests: int, seed: int) -> RequestTrace:
    random = np.random.default_rng(seed)
    weight = 1 / np.arange(1, OBJECTS + 1) ** EXPONENT
    chance = np.cumsum(weight / weight.sum())
    asked = random.permutation(OBJECTS)[np.searchsorted(chance, random.random(requests))]
    sizes = random.integers(100, 10_000, OBJECTS)
    at_s = (np.arange(requests) // 1000).astype(np.float64)
    return RequestTrace(at_s, asked.astype(np.uint64), sizes[asked])


def libcachesim() -> Any:
    try:
        import libcachesim
    except ImportError:
        raise SystemExit("bench lab needs libcachesim: pip install 'tocsin[bench]'") from None
    return libcachesim
