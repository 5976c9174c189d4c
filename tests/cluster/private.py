"""A real cluster without Spark and a real broker: private channels and datasets, with results.

What Spark's join would find is stored as its results: each backend subscription gets the records of
the owner that its bound parameter names, or everybody's where nothing binds it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import msgspec
from websockets.asyncio.client import connect

from broker.world import PATIENCE_S, Wire, until
from cluster.sparkless import SECRET, SparklessCluster, sparkless
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.model import ANY, SUBSCRIBER, Channel, Parameter
from tocsin.service.serving import listen, port_of, serving
from tocsin.settings import Settings
from tocsin.storage.store.runs import Run

QUERY = "SELECT n.id FROM NEW notes n WHERE n.owner = :me AND n.kind = :kind"
MINE = "SELECT n.id FROM NEW notes n WHERE n.owner = current_subscriber() AND n.kind = :kind"
OWNERS = ("alice", "bob", "mallory", "Mallory", "ALICE", "ａlice")
_runs = itertools.count(1)


def token(subject: str, *scopes: str, **claims: Any) -> str:
    """One that says more than `mint` would."""
    now = time.time()
    said = {"sub": subject, "scope": " ".join(scopes or ("subscribe",)), "exp": int(now + 600)}
    return jwt.encode(said | claims, SECRET, algorithm="HS256")


def _channel(name: str, me: Parameter, query: str) -> Channel:
    parameters = (me, Parameter("kind", "STRING"))
    return Channel(name, "continuous", parameters, query, ("plain",), ("plain",))


class Private:
    def __init__(self, cluster: SparklessCluster, broker: Broker) -> None:
        self.cluster = cluster
        self.broker = broker
        self._stack = contextlib.AsyncExitStack()

    async def http(self, url: str, bearer: str, **headers: str) -> httpx.AsyncClient:
        client = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {bearer}", **headers},
            timeout=PATIENCE_S,
        )
        return await self._stack.enter_async_context(client)

    async def at_cluster(self, bearer: str, **headers: str) -> httpx.AsyncClient:
        return await self.http(self.cluster.url, bearer, **headers)

    async def at_broker(self, bearer: str) -> httpx.AsyncClient:
        return await self.http(self.broker.url, bearer)

    async def wire(self, bearer: str) -> Wire:
        url = f"{self.broker.ws_url}?token={bearer}&inline=1"
        wire = Wire(await self._stack.enter_async_context(connect(url, compression=None)))
        wire.welcome = await wire.next()
        return wire

    async def publish(self, note: int) -> None:
        """A note for each owner: to the routed dataset, and through both channels."""
        records = [{"id": note, "owner": owner, "kind": "a"} for owner in OWNERS]
        await self.cluster.publish_all("notes", records)
        store = self.cluster.store
        for name in ("inbox", "mine", "team"):
            backends = {
                subscription.backend.id: subscription.backend
                for subscription in store.subscriptions.all_()
                if subscription.backend.channel == name
            }
            rows = []
            for number, backend in backends.items():
                bound = {"inbox": "me", "mine": SUBSCRIBER.name, "team": "me"}[name]
                value = backend.arguments[bound]
                owners = OWNERS if value == ANY else (value,)
                rows += [
                    (number, msgspec.json.encode({"id": note, "owner": owner})) for owner in owners
                ]
            now = time.time()
            run = Run(name, f"run {next(_runs)}", now, now)
            committed = store.runs.commit_run(run, rows)
            assert committed is not None
            self.cluster._committed(store.catalog.channel(name), committed)

    async def close(self) -> None:
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def private(directory: Path) -> AsyncIterator[Private]:
    """Channels `inbox(me, kind)`, `mine(kind)`, `team(me, kind)` (bound to the claim team), and the
    routed dataset `notes`, whose owner is bound."""
    listener = listen("127.0.0.1", 0)
    coordinating = serving(coordinator.app(Settings(secret=SECRET, heartbeat_s=0.1)), listener)
    async with sparkless(directory, news_poll_s=0.1) as cluster, coordinating:
        admin = await _admin(cluster)
        for text in (
            "CREATE DATASET plain (id INT, owner STRING, kind STRING)",
            "CREATE DATASET notes (id INT, owner STRING, kind STRING, photo ATTACHMENT)"
            " ROUTED BOUND owner TO CLAIM 'sub'",
        ):
            (await admin.post("/v1/statements", json={"sql": text})).raise_for_status()
        await admin.aclose()
        for channel in (
            _channel("inbox", Parameter("me", "STRING", claim="sub"), QUERY),
            _channel("team", Parameter("me", "STRING", claim="team"), QUERY),
            Channel(
                "mine",
                "continuous",
                (Parameter("kind", "STRING"), SUBSCRIBER),
                MINE,
                ("plain",),
                ("plain",),
            ),
        ):
            cluster.store.catalog.create_channel(channel)
        broker = Broker(
            Settings(
                secret=SECRET,
                broker_name="broker_1",
                broker_port=0,
                broker_ws_port=0,
                cluster_url=cluster.url,
                coordinator_url=f"http://127.0.0.1:{port_of(listener)}",
                heartbeat_s=0.1,
                news_poll_s=0.1,
                marker_flush_s=0.01,
                message_policy="all-sub-fifo",
            )
        )
        await broker.start()
        world = Private(cluster, broker)
        await until(lambda: broker.driver.machine.entry == "broker_1")
        try:
            yield world
        finally:
            await world.close()
            await broker.stop()


async def _admin(cluster: SparklessCluster) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token('root', 'admin')}"}
    return httpx.AsyncClient(base_url=cluster.url, headers=headers, timeout=PATIENCE_S)
