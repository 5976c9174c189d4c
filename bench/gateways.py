"""Publishing one by one: straight to the cluster, and through one and two gateways.

Real processes; publishers of their own process send a record at a time over kept connections. What
a record costs each process is its processor time over the records taken. All ways are measured in
turns, in one run.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psutil

from bench.findings import Finding
from tocsin.client import Client
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

CONNECTIONS = 32
GATEWAYS = 2
DATASET = "reports"
CREATE = f"CREATE DATASET {DATASET} (type STRING, severity BIGINT, message STRING)"
WAYS = ("cluster", "1 gateway", "2 gateways")


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    return asyncio.run(_run(4.0 if quick else 10.0, 2 if quick else 5, say))


async def _run(seconds: float, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        settings = Settings(
            data=Path(folder),
            warm_up=False,
            java_options=SHORT_LIVED_JAVA,
            gateways=GATEWAYS,
            flush_interval_s=3600.0,  # Spark has no part in it
        )
        say("starting a cluster, two gateways, a coordinator and a broker")
        async with System(settings) as system:
            token = system.token("bench", "publish", "admin")
            async with Client(
                system.coordinator_url, cluster=system.cluster_url, token=token
            ) as client:
                await client.sql(CREATE)
            urls = list(system.gateway_urls.values())
            ways = {WAYS[0]: [system.cluster_url], WAYS[1]: urls[:1], WAYS[2]: urls}
            taken: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for way in WAYS:
                await _measured(system, ways[way], token, 1.0)  # warm
            for number in range(rounds):
                for way in WAYS if number % 2 == 0 else reversed(WAYS):
                    figures = await _measured(system, ways[way], token, seconds)
                    taken[way].append(figures)
                    say(f"{way}: {figures['records_a_second']:.0f} records/s")
    return _findings(taken)


async def _measured(
    system: System, urls: list[str], token: str, seconds: float
) -> dict[str, float]:
    """Records a second, and processor time a record of each process in microseconds."""
    names = [name for name in system.names if name.startswith(("cluster", "gateway"))]
    before = {name: _processor_s(system.pid(name)) for name in names}
    given = [sys.executable, "-m", "bench.gateways_publishers", token, str(seconds), *urls]
    publishers = await asyncio.create_subprocess_exec(*given, stdout=subprocess.PIPE)
    out, _ = await publishers.communicate()
    told = msgspec.json.decode(out, type=dict[str, float])
    costs = {
        f"{name}_us": 1e6 * (_processor_s(system.pid(name)) - before[name]) / told["records"]
        for name in names
    }
    return {"records_a_second": told["records"] / told["seconds"], **costs, **told}


def _processor_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _findings(taken: Mapping[str, list[dict[str, float]]]) -> list[Finding]:
    middle = {
        way: {name: median(figures[name] for figures in rounds) for name in rounds[0]}
        for way, rounds in taken.items()
    }
    straight = middle[WAYS[0]]
    details: dict[str, Any] = {"connections": CONNECTIONS, "rounds": taken}
    findings = [
        Finding(
            claim=f"records taken one by one from {CONNECTIONS} connections, through {way}",
            unit="/s",
            ours=middle[way]["records_a_second"],
            baseline=straight["records_a_second"],
            baseline_is="straight to the cluster",
            details=details | {"median": middle[way]},
        )
        for way in WAYS[1:]
    ]
    findings += [
        Finding(
            claim=f"the cluster's processor time for a record published one by one, through {way}",
            unit="us",
            ours=middle[way]["cluster_us"],
            baseline=straight["cluster_us"],
            baseline_is="straight to the cluster",
            lower_is_better=True,
            details={"median": middle[way], "straight": straight},
        )
        for way in WAYS[1:]
    ]
    return findings
