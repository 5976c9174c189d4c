"""All services in one process, in a loop of their own: everything but Spark is real."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from msgspec import Struct

from cluster.sparkless import SECRET, sparkless
from gateway.doors import gateway_before
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.client.cluster import Cluster
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import SCOPES, mint
from tocsin.settings import Settings

STATEMENTS = (
    "CREATE DATASET reports (id STRING, kind STRING, n BIGINT, photo ATTACHMENT) PRIMARY KEY (id)",
    "CREATE DATASET sightings (id STRING, lat DOUBLE, lon DOUBLE, n BIGINT) ROUTED",
)


class Addresses(Struct, frozen=True):
    cluster: str
    coordinator: str
    broker: str
    gateway: str

    def of(self, service: str) -> str:
        address: str = getattr(self, service)
        return address


def token(*scopes: str) -> str:
    return mint(SECRET, "ann", scopes or SCOPES, expires_s=3600, now=time.time())


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Addresses]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    services = _services(directory)
    try:
        yield asyncio.run_coroutine_threadsafe(services.__aenter__(), loop).result(60)
    finally:
        leaving = services.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(leaving, loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextlib.asynccontextmanager
async def _services(directory: Path) -> AsyncIterator[Addresses]:
    async with contextlib.AsyncExitStack() as until:
        limits = {"body_limit_bytes": 1_000_000, "record_limit_bytes": 10_000}
        cluster = await until.enter_async_context(sparkless(directory, **limits))
        client = Cluster(cluster.url, token())
        until.push_async_callback(client.close)
        for statement in STATEMENTS:
            await client.sql(statement)
        settings = Settings(secret=SECRET, cluster_url=cluster.url, broker_port=0, broker_ws_port=0)
        listener = listen("127.0.0.1", 0)
        coordinator_url = f"http://127.0.0.1:{port_of(listener)}"
        await until.enter_async_context(serving(coordinator.app(settings), listener))
        broker = Broker(
            Settings(
                secret=SECRET,
                cluster_url=cluster.url,
                coordinator_url=coordinator_url,
                broker_port=0,
                broker_ws_port=0,
                body_limit_bytes=limits["body_limit_bytes"],
            )
        )
        await until.enter_async_context(broker)
        gateway = await until.enter_async_context(gateway_before(cluster.url, **limits))
        yield Addresses(cluster.url, coordinator_url, broker.url, gateway.url)
