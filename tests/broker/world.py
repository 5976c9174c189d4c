"""A fake cluster, a real coordinator and real brokers over real sockets, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.client import Client, Result, Subscription
from tocsin.client.transport import tls
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import mint
from tocsin.settings import Settings
from tocsin.testing.fake_cluster import SECRET, FakeCluster

PATIENCE_S = 20.0


def token(subject: str, *scopes: str, expires_s: float = 600) -> str:
    return mint(SECRET, subject, scopes or ("subscribe",), expires_s=expires_s, now=time.time())


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that only shows in another's state; fails when patience ends."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (no event to wait for)
            await asyncio.sleep(0.005)


async def take(subscription: Subscription, count: int) -> list[Result]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(subscription) for _ in range(count)]


async def cut(broker: Broker) -> None:
    """Break the one connection there is."""
    (connection,) = broker.sockets.connections
    assert connection._transport is not None
    connection._transport.disconnect(False)
    await until(lambda: connection not in broker.sockets.connections)


def small_socket(url: str) -> socket.socket:
    """Connected, and unwilling to hold more than a few bytes that nobody reads."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    address = httpx.URL(url)
    made.connect((address.host, address.port))
    return made


class World:
    def __init__(self, cluster: FakeCluster, coordinator_url: str) -> None:
        self.cluster = cluster
        self.coordinator_url = coordinator_url
        self._stack = contextlib.AsyncExitStack()
        self._brokers: list[Broker] = []

    def settings(self, **changes: Any) -> Settings:
        base: dict[str, Any] = {
            "secret": SECRET,
            "broker_port": 0,
            "broker_ws_port": 0,
            "cluster_url": self.cluster.url,
            "coordinator_url": self.coordinator_url,
            "heartbeat_s": 0.1,
            "news_poll_s": 0.1,
            "marker_flush_s": 0.01,
            "token_leeway_s": 0.0,  # a test waits for no minute until a token is over
        }
        return Settings(**(base | changes))

    async def broker(
        self, name: str = "broker_1", *, stall_s: float = 10.0, **changes: Any
    ) -> Broker:
        broker = Broker(self.settings(broker_name=name, **changes), stall_s=stall_s)
        await broker.start()
        self._brokers.append(broker)
        return broker

    async def crash(self, broker: Broker) -> None:
        self._brokers.remove(broker)
        await broker.abort()

    async def stop(self, broker: Broker) -> None:
        self._brokers.remove(broker)
        await broker.stop()

    async def client(self, subject: str, **options: Any) -> Client:
        made = Client(
            self.coordinator_url,
            cluster=self.cluster.url,
            token=token(subject, "subscribe", "publish", "admin"),
            reconnect_most_s=0.2,
            **options,
        )
        return await self._stack.enter_async_context(made)

    async def http(self, broker: Broker, subject: str, *scopes: str) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token(subject, *scopes)}"}
        client = httpx.AsyncClient(
            base_url=broker.url, headers=headers, timeout=PATIENCE_S, verify=tls()
        )
        return await self._stack.enter_async_context(client)

    async def socket(
        self,
        broker: Broker,
        subject: str,
        *,
        inline: int = 0,
        expires_s: float = 600,
        small: bool = False,
        query: str = "",
    ) -> Wire:
        """A raw connection, past its welcome. `small`: it holds few bytes that nobody reads."""
        url = f"{broker.ws_url}?token={token(subject, expires_s=expires_s)}&inline={inline}{query}"
        options: dict[str, Any] = {"ssl": tls()} if url.startswith("wss:") else {}
        if small:
            made = small_socket(broker.ws_url)
            made.setblocking(False)
            options |= {"sock": made, "max_queue": 1, "ping_interval": None, "close_timeout": 1}
        connection = connect(url, compression=None, max_size=None, **options)
        wire = Wire(await self._stack.enter_async_context(connection))
        wire.welcome = await wire.next()
        assert wire.welcome["op"] == "welcome"
        return wire

    async def close(self) -> None:
        await self._stack.aclose()
        for broker in list(self._brokers):
            await self.stop(broker)


class Wire:
    """A raw WebSocket that speaks JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.welcome: dict[str, Any] = {}

    async def send(self, **frame: Any) -> None:
        await self.socket.send(msgspec.json.encode(frame), text=True)

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            found: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
            return found

    async def until(self, op: str) -> dict[str, Any]:
        while True:
            frame = await self.next()
            if frame["op"] == op:
                return frame

    async def subscribe(self, **arguments: Any) -> dict[str, Any]:
        await self.send(op="subscribe", ref="s", channel="floods", arguments=arguments)
        answer = await self.until("subscribed")
        found: dict[str, Any] = answer["subscription"]
        return found

    async def closed(self) -> int:
        """The code with which the broker hangs up; what comes before is skipped."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(Exception):
                while True:
                    await self.socket.recv()
        await self.socket.wait_closed()
        assert self.socket.close_code is not None
        return self.socket.close_code


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with FakeCluster().serve() as cluster:
        listener = listen("127.0.0.1", 0)
        service = coordinator.app(Settings(secret=SECRET, heartbeat_s=0.1))
        async with serving(service, listener):
            made = World(cluster, f"http://127.0.0.1:{port_of(listener)}")
            try:
                yield made
            finally:
                await made.close()
