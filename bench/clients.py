"""One client with very many subscriptions: the CPU time that a result costs it, and its broker.

A cluster in memory, a real broker process and a client process with the library that applications
import, a task for each subscription. Results come in runs, as channels make them: one for each of
some subscriptions. They are pushed, so that the way between broker and client is what is measured.
The baseline is the same client when it has results signalled, asks for each and acknowledges each,
in frames of their own.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from bench.control import Helper
from bench.findings import Finding
from tocsin.service.tokens import mint, sign_notice
from tocsin.testing.fake_cluster import FakeCluster
from tocsin.testing.fake_subscriptions import Backend, Frontend

CHANNEL, SUBSCRIBER = "floods", "bench"
TARGET_US = 100.0  # of the client's CPU
WAYS = {"together": "inline, frames shared", "single": "signals, a frame for each"}
RUNS = (1, 100, 1000)  # subscriptions that get a result at one moment


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    many = 1000 if quick else 10_000
    figures = {}
    for way in WAYS:
        say(f"{many} subscriptions, {WAYS[way]}")
        figures[way] = asyncio.run(_measure(way, many))
    ours, baseline = figures["together"], figures["single"]
    return [
        Finding(
            claim=f"{who}'s CPU per result, {many:,} subscriptions, {of} at a time",
            unit="µs",
            ours=ours[who][of],
            baseline=baseline[who][of],
            baseline_is=WAYS["single"],
            lower_is_better=True,
            target=TARGET_US if who == "client" and of > 1 else None,
            details={"subscriptions": many, "bytes_per_subscription": ours["bytes"]},
        )
        for who in ("client", "broker")
        for of in RUNS
    ]


async def _measure(way: str, many: int) -> dict[str, Any]:
    """Microseconds for a result of the client's and of the broker's CPU, by the size of runs."""
    secret = secrets.token_hex(32)
    cluster = FakeCluster(secret)
    for number in range(many):
        backend = Backend(2 * number + 1, CHANNEL, {"type": f"type {number}"}, uuid.uuid4().hex)
        cluster.backends[backend.id] = backend
        frontend = Frontend(backend.id + 1, SUBSCRIBER, "broker_1", backend, 0)
        cluster.frontends[frontend.id] = frontend
    async with cluster.serve():
        broker = Helper("bench.clients_broker", secret, cluster.url)
        try:
            url = (await _hear(broker))["url"]
            token = mint(secret, SUBSCRIBER, ["subscribe"], expires_s=3600, now=time.time())
            client = Helper("bench.clients_client", way, url, token, str(many))
            try:
                return await _rounds(cluster, broker, client, many)
            finally:
                client.stop()
        finally:
            broker.stop()


async def _rounds(
    cluster: FakeCluster, broker: Helper, client: Helper, many: int
) -> dict[str, Any]:
    figures: dict[str, Any] = {"client": {}, "broker": {}, "bytes": (await _hear(client))["bytes"]}
    await _results(cluster, client, many // 10, 100)  # once unmeasured
    for of in RUNS:
        before = await _cpu(client), await _cpu(broker)
        count = many // 10 if of == 1 else many
        await _results(cluster, client, count, of)
        after = await _cpu(client), await _cpu(broker)
        for who, began, ended in zip(("client", "broker"), before, after, strict=True):
            figures[who][of] = 1e6 * (ended - began) / count
    return figures


async def _results(cluster: FakeCluster, client: Helper, count: int, of: int) -> None:
    """So many results, each of another subscription so that none conflate, in runs; until all are
    acknowledged durably."""
    backends = random.Random(of).sample(list(cluster.backends.values()), count)
    client.tell(expect=count)
    for start in range(0, count, of):
        heads = []
        cluster.sequence += 1
        for backend in backends[start : start + of]:
            backend.head += 1
            backend.changed = cluster.sequence
            value = {"type": backend.arguments["type"], "text": "x" * 200, "severity": 3}
            result = {"position": backend.head, "at": time.time(), "value": value}
            backend.results.append(result)
            head = {"backend": backend.id, "epoch": backend.epoch, "head": backend.head}
            heads.append(head | {"results": [result]})
        await _notify(cluster, heads)
    await _hear(client)


async def _notify(cluster: FakeCluster, heads: list[dict[str, Any]]) -> None:
    notice = {"store_id": cluster.store, "sequence": cluster.sequence, "heads": heads}
    body = msgspec.json.encode(notice | {"detached": []})
    [url] = cluster.brokers.values()
    headers = {"tocsin-signature": sign_notice(cluster.secret, body, time.time())}
    async with httpx.AsyncClient(verify=False) as http:
        (await http.post(f"{url}/v1/notices", content=body, headers=headers)).raise_for_status()


async def _cpu(process: Helper) -> float:
    process.tell(op="cpu")
    cpu_s: float = (await _hear(process))["cpu_s"]
    return cpu_s


async def _hear(process: Helper) -> dict[str, Any]:
    """The cluster answers in this process meanwhile."""
    return await asyncio.to_thread(process.hear)
