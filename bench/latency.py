"""Latency: from the call that publishes a record to the application that has its result.

Real processes with default settings: cluster with Spark, coordinator, broker, and the client that
applications import. The baseline is what one does without channels, in the same system in the same
minute: ask the cluster for new records every second.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.findings import Finding, latency
from tocsin.client import Client
from tocsin.demo.ledger import percentile
from tocsin.settings import Settings
from tocsin.system import System

TARGET_P50_MS = 250.0
POLL_S = 1.0
LATE_S = 60.0

DATASET = "CREATE DATASET reports (number BIGINT, type STRING, message STRING)"
CHANNEL = (
    "CREATE CONTINUOUS CHANNEL reports_of_type(type STRING) AS "
    "SELECT r.number, r.type, r.message FROM NEW reports r WHERE r.type = :type"
)
MESSAGE = "The road is closed in both directions. " * 10


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    return asyncio.run(_run(30 if quick else 200, 30 if quick else 150, say))


async def _run(samples: int, warm_up: int, say: Callable[[str], None]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        say("starting a cluster, a coordinator and a broker")
        async with System(Settings(data=Path(folder))) as system:
            token = system.token("bench", "publish", "subscribe", "admin")
            async with Client(
                system.coordinator_url, cluster=system.cluster_url, token=token
            ) as client:
                await client.sql(DATASET)
                await client.sql(CHANNEL)
                arrivals = Arrivals()
                told = asyncio.create_task(_listen(client, arrivals))
                await arrivals.listening.wait()
                say("warming up")
                await _publish(client, arrivals, warm_up, 0)
                say(f"{samples} publications to a subscriber")
                ours = await _publish(client, arrivals, samples, warm_up)
                told.cancel()
                parts = _parts(arrivals, ours, warm_up)
                polled = Arrivals()
                asking = asyncio.create_task(_poll(client, polled, warm_up + samples))
                say(f"{samples} publications to one who asks every second")
                theirs = await _publish(client, polled, samples, warm_up + samples)
                asking.cancel()
    asked = ((0.5, TARGET_P50_MS), (0.99, None))
    return [_finding(share, target, ours, theirs, parts) for share, target in asked]


class Arrivals:
    """When each numbered record reached the application."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}
        self.made_at: dict[int, float] = {}  # when the cluster made the result, wall clock
        self.listening = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def came(self, number: int) -> None:
        self.at.setdefault(number, time.perf_counter())
        if number in self._waiting and not self._waiting[number].done():
            self._waiting[number].set_result(None)

    def wait_for(self, number: int) -> Awaitable[None]:
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        if number in self.at:
            future.set_result(None)
        return asyncio.wait_for(future, LATE_S)


async def _listen(client: Client, arrivals: Arrivals) -> None:
    async with await client.subscribe("reports_of_type", type="flood") as floods:
        arrivals.listening.set()
        async for flood in floods:
            arrivals.made_at[flood.value["number"]] = flood.at
            arrivals.came(flood.value["number"])


async def _poll(client: Client, arrivals: Arrivals, after: int) -> None:
    """A careful poller: on its second, and only for what it has not seen."""
    due = time.perf_counter()
    while True:
        [found] = await client.sql(
            "SELECT number, type, message FROM reports "  # noqa: S608
            f"WHERE type = 'flood' AND number >= {after}"
        )
        for number, *_ in found.rows:
            arrivals.came(number)
            after = max(after, number + 1)
        due = max(due + POLL_S, time.perf_counter())
        await asyncio.sleep(due - time.perf_counter())


async def _publish(client: Client, arrivals: Arrivals, count: int, first: int) -> list[float]:
    """Publish one by one at odd moments; how long each took to arrive, in ms."""
    chance = random.Random(first)
    sent: dict[int, float] = {}
    for number in range(first, first + count):
        sent[number] = time.perf_counter()
        record = {"number": number, "type": "flood", "message": MESSAGE}
        await client.publish("reports", record)
        await asyncio.sleep(chance.uniform(0.05, 0.35))
    await arrivals.wait_for(first + count - 1)
    return [1000 * (arrivals.at[number] - at) for number, at in sent.items()]


def _parts(arrivals: Arrivals, latencies_ms: list[float], first: int) -> dict[str, float | None]:
    """Where the time goes: up to the result in the store, and from there to the application."""
    drift_s = time.time() - time.perf_counter()
    after_ms = [
        1000 * (arrivals.at[number] + drift_s - arrivals.made_at[number])
        for number in range(first, first + len(latencies_ms))
    ]
    before_ms = [whole - after for whole, after in zip(latencies_ms, after_ms, strict=True)]
    return {
        "publish_to_result_p50_ms": percentile(before_ms, 0.5),
        "result_to_application_p50_ms": percentile(after_ms, 0.5),
    }


def _finding(
    share: float,
    target: float | None,
    ours: list[float],
    theirs: list[float],
    parts: dict[str, float | None],
) -> Finding:
    return latency(
        "publish to subscriber",
        share,
        ours,
        theirs,
        baseline_is="asking with SELECT every second",
        target=target,
        details={
            **parts,
            "ours_ms": [round(each, 1) for each in ours],
            "baseline_ms": [round(each, 1) for each in theirs],
        },
    )
