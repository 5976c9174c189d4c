"""Page caches: operations a second, compiled and live.

GD* with β = 1 is GDSF: its baseline is libCacheSim's, in the same process, on the same trace of
requests, and both must miss nearly the same. On the delivery paper's workload the baseline of each
policy is the live cache, which must do the same.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.findings import Finding
from bench.lab import HASH_POWER, OBJECTS, SHARE, libcachesim, zipf_trace
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.simulators.page_cache.simulator import simulate
from tocsin.lab.simulators.plain_cache.simulator import Requests
from tocsin.lab.trace.oracle_general import write_oracle_general
from tocsin.lab.workloads.pages.news import NewsSettings, news
from tocsin.lab.workloads.pages.operations import BROWSE, Operations
from tocsin.policies.page import parse_page_policy

POLICIES = ("gdstar", "sg1", "hug", "dc", "dc-ta", "learned-demand")
ROUNDS = 5
TARGET = 20e6  # operations a second and core, GD*
PAPERS = NewsSettings(servers=1, requests=2_000_000)  # one server has all: long enough to measure
CACHE_SHARE = 0.05


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    rounds = 3 if quick else ROUNDS
    return [_beside_the_world(quick, rounds, say), *_papers(quick, rounds, say)]


def _beside_the_world(quick: bool, rounds: int, say: Callable[[str], None]) -> Finding:
    say("gdstar beside libCacheSim's GDSF")
    trace = zipf_trace(200_000 if quick else 2_000_000, seed=1)
    budget_bytes = int(OBJECTS * trace.size_bytes.mean() * SHARE)
    asked = Requests(trace)
    browsing = Operations(
        np.full(len(asked), BROWSE, np.uint8),
        asked.object,
        asked.size_bytes,
        np.zeros(len(asked), np.int32),
        asked.objects,
    )
    policy = parse_page_policy("gdstar")
    library = libcachesim()
    simulate(browsing, policy, budget_bytes)  # compiles
    ours_s, theirs_s = [], []
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        file = Path(folder) / "zipf.oracleGeneral"
        write_oracle_general(trace, file)
        for _ in range(rounds):  # in turns: the machine's mood changes
            ours = simulate(browsing, policy, budget_bytes)
            ours_s.append(ours.seconds)
            reader = library.TraceReader(str(file), library.TraceType.ORACLE_GENERAL_TRACE)
            cache = library.GDSF(budget_bytes, hashpower=HASH_POWER)
            began = time.perf_counter()
            misses = cache.process_trace(reader)[0] * len(trace)
            theirs_s.append(time.perf_counter() - began)
    if abs(ours.requests - ours.hits - misses) > 0.001 * len(trace):  # ties fall differently
        raise AssertionError(f"{ours.requests - ours.hits} misses, libCacheSim has {misses}")
    return Finding(
        claim="requests, gdstar",
        unit="/s",
        ours=len(trace) / statistics.median(ours_s),
        baseline=len(trace) / statistics.median(theirs_s),
        baseline_is="libCacheSim's GDSF, the same trace",
        details={"ours_s": ours_s, "theirs_s": theirs_s, "hit_ratio": ours.hit_ratio},
    )


def _papers(quick: bool, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    say("making the paper's workload")
    operations = news(PAPERS, 1).server(0)
    few = 50_000 if quick else 300_000
    part = Operations(
        operations.kind[:few],
        operations.page[:few],
        operations.size_bytes[:few],
        operations.subscriptions[:few],
        operations.pages,
    )
    capacity_bytes = int(CACHE_SHARE * operations.requested_bytes)
    findings = []
    for name in POLICIES:
        say(f"{name}: the paper's workload")
        policy = parse_page_policy(name)
        live = run_live(part, policy, capacity_bytes)[0]
        same = simulate(part, policy, capacity_bytes)  # compiles, too
        if (live.hits, live.evicted) != (same.hits, same.evicted):
            raise AssertionError(f"{name}: the kernel and the cache disagree: {live} {same}")
        runs = [simulate(operations, policy, capacity_bytes) for _ in range(rounds)]
        findings.append(
            Finding(
                claim=f"operations of the paper's workload, {name}",
                unit="/s",
                ours=len(operations) / statistics.median(one.seconds for one in runs),
                baseline=len(part) / live.seconds,
                baseline_is="the live page cache, on the beginning of it",
                target=TARGET if name == "gdstar" else None,
                details={"rounds_s": [one.seconds for one in runs], "hit_ratio": runs[0].hit_ratio},
            )
        )
    return findings
