"""A broker's price of subscribers who each have a connection of their own, and its memory for sets,
subscriptions and connections; with a cluster in memory, so that nothing else works."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from typing import Any, NamedTuple

import httpx
import msgspec
from msgspec import Struct

from bench.control import Helper
from tocsin.service.tokens import mint, sign_notice
from tocsin.testing.fake_cluster import FakeCluster
from tocsin.testing.fake_subscriptions import Backend, Frontend

CHANNEL = "floods"
MANY = 10_000
SHARED_BY = 10
TEXT = "x" * 200


class OwnConnections(Struct, frozen=True):
    us_per_delivery: float
    """With the result's own price, as far as so many deliveries bear it."""
    bytes_per_set: float
    bytes_per_subscription: float
    bytes_per_connection: float
    wire_bytes_per_notice: float
    wire_bytes_per_delivery: float


class _Shape(NamedTuple):
    sets: int
    subscriptions: int
    connections: int


async def measure(connections: int, rounds: int) -> OwnConnections:
    few = (await _play(_Shape(10, 10, 0), 0))["rss"]
    alone = (await _play(_Shape(MANY, MANY, 0), 0))["rss"]
    shared = (await _play(_Shape(MANY // SHARED_BY, MANY, 0), 0))["rss"]
    by_set = max(0.0, (alone - shared) / (MANY - MANY // SHARED_BY))
    by_subscription = max(0.0, (alone - few) / MANY - by_set)
    own = await _play(_Shape(connections // SHARED_BY, connections, connections), rounds)
    held = connections * (by_subscription + by_set / SHARED_BY)
    return OwnConnections(
        us_per_delivery=own["us"],
        bytes_per_set=by_set,
        bytes_per_subscription=by_subscription,
        bytes_per_connection=max(0.0, (own["rss"] - few - held) / connections),
        wire_bytes_per_notice=own["notice"],
        wire_bytes_per_delivery=own["frame"],
    )


async def _play(shape: _Shape, rounds: int) -> dict[str, float]:
    secret = secrets.token_hex(32)
    cluster = FakeCluster(secret)
    shared_by = shape.subscriptions // shape.sets
    for number in range(shape.sets):
        arguments = {"type": f"type {number}"}
        backend = Backend(number + 1, CHANNEL, arguments, uuid.uuid4().hex)
        cluster.backends[backend.id] = backend
    for number in range(shape.subscriptions):
        backend = cluster.backends[number // shared_by + 1]
        frontend = Frontend(shape.sets + number + 1, f"s{number}", "broker_1", backend, 0)
        cluster.frontends[frontend.id] = frontend
    async with cluster.serve():
        broker = Helper("bench.clients_broker", secret, cluster.url)
        try:
            url = (await asyncio.to_thread(broker.hear))["url"]
            if not shape.connections:
                await asyncio.sleep(1.0)  # it reads whose broker it is
                return {"rss": (await broker.ask(op="rss"))["rss_bytes"]}
            tokens = [
                mint(secret, f"s{number}", ["subscribe"], expires_s=3600, now=time.time())
                for number in range(shape.connections)
            ]
            clients = Helper("bench.capacity.connections_client", url)
            try:
                await clients.ask(tokens=tokens)
                return await _rounds(cluster, broker, clients, shape, rounds)
            finally:
                clients.stop()
        finally:
            broker.stop()


async def _rounds(
    cluster: FakeCluster, broker: Helper, clients: Helper, shape: _Shape, rounds: int
) -> dict[str, float]:
    """A result for each set, again and again; once unmeasured."""
    await _round(cluster, clients, shape)
    stood = await broker.ask(op="rss")
    notice = bytes_ = 0.0
    for _ in range(rounds):
        sent, came = await _round(cluster, clients, shape)
        notice, bytes_ = notice + sent, bytes_ + came
    ended = await broker.ask(op="rss")
    deliveries, results = rounds * shape.subscriptions, rounds * shape.sets
    value = len(msgspec.json.encode({"type": "type 1", "text": TEXT}))
    return {
        "rss": ended["rss_bytes"],
        "us": 1e6 * (ended["cpu_s"] - stood["cpu_s"]) / deliveries,
        "notice": max(0.0, notice / results - value),
        "frame": max(0.0, bytes_ / deliveries - value),
    }


async def _round(cluster: FakeCluster, clients: Helper, shape: _Shape) -> tuple[int, int]:
    cluster.sequence += 1
    heads = []
    for backend in cluster.backends.values():
        backend.head += 1
        backend.changed = cluster.sequence
        value = {"type": backend.arguments["type"], "text": TEXT}
        result = {"position": backend.head, "at": time.time(), "value": value}
        backend.results.append(result)
        head: dict[str, Any] = {"backend": backend.id, "epoch": backend.epoch}
        heads.append(head | {"head": backend.head, "results": [result]})
    notice = {"store_id": cluster.store, "sequence": cluster.sequence, "heads": heads}
    body = msgspec.json.encode(notice | {"detached": []})
    [url] = cluster.brokers.values()
    headers = {"tocsin-signature": sign_notice(cluster.secret, body, time.time())}
    clients.tell(expect=shape.subscriptions)
    async with httpx.AsyncClient(verify=False) as http:
        (await http.post(f"{url}/v1/notices", content=body, headers=headers)).raise_for_status()
    return len(body), (await asyncio.to_thread(clients.hear))["bytes"]
