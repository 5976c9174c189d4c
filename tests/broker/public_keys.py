"""A small system without any shared secret: a cluster without Spark, a coordinator and brokers,
each with a key of its own, and users whose tokens another key signs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect

from broker.world import PATIENCE_S, Wire, until
from cluster.sparkless import ROUTED, SparklessCluster, sparkless
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.key_sets import KeySetFile
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import claims_for
from tocsin.settings import Settings

SOON_S = 10.0  # "within seconds", on a machine that has other work


class System:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keys = KeySetFile(directory / "jwks.json")
        self.users = self.new_key("users")
        self.cluster: SparklessCluster
        self.coordinator_url = ""
        self.brokers: dict[str, Broker] = {}
        self.stack = contextlib.AsyncExitStack()

    def new_key(self, kid: str, broker: str | None = None) -> SigningKey:
        scopes = None if broker is None else ["broker"]
        key = SigningKey.new("EdDSA", kid=kid, subject=broker, scopes=scopes)
        key.write(self.directory / "keys", kid)
        self.keys.add(key.public_entry)
        return key

    def shared(self) -> dict[str, Any]:
        return {"token_keys": str(self.directory / "jwks.json"), "secret": ""}

    def token(self, subject: str, *scopes: str, key: SigningKey | None = None) -> str:
        said = claims_for(subject, scopes or ("subscribe",), expires_s=600, now=time.time())
        return (key or self.users).sign(said)

    def http(self, url: str, token: str) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S, verify=tls())

    async def start(self) -> None:
        data = self.directory / "cluster"
        data.mkdir()
        self.cluster = await self.stack.enter_async_context(sparkless(data, **self.shared()))
        await self.cluster.create_dataset(ROUTED)
        listener = listen("127.0.0.1", 0)
        settings = Settings(
            data=self.directory / "coordinator",
            revocations=str(data / "revoked.json"),
            heartbeat_s=0.1,
            **self.shared(),
        )
        await self.stack.enter_async_context(serving(coordinator.app(settings), listener))
        self.coordinator_url = f"http://127.0.0.1:{port_of(listener)}"

    async def broker(self, name: str, **changes: Any) -> Broker:
        given: dict[str, Any] = {
            "data": self.directory / name,
            "broker_name": name,
            "broker_key": str(self.directory / "keys"),
            "broker_port": 0,
            "broker_ws_port": 0,
            "cluster_url": self.cluster.url,
            "coordinator_url": self.coordinator_url,
            "heartbeat_s": 0.1,
            "news_poll_s": 0.2,
            "marker_flush_s": 0.01,
        }
        broker = Broker(Settings(**(given | self.shared() | changes)))
        self.brokers[name] = await self.stack.enter_async_context(broker)
        return broker

    async def linked(self) -> None:
        brokers = self.brokers.values()
        await until(lambda: all(one.driver.machine.router.neighbours for one in brokers))

    async def client(self, subject: str, **options: Any) -> Client:
        return await self.stack.enter_async_context(
            Client(
                self.coordinator_url,
                cluster=self.cluster.url,
                **({"token": self.token(subject, "subscribe", "publish")} | options),
            )
        )

    async def socket(self, broker: Broker, token: str) -> Wire:
        headers = {"Authorization": f"Bearer {token}"}
        made = connect(broker.ws_url, additional_headers=headers, compression=None)
        wire = Wire(await self.stack.enter_async_context(made))
        wire.welcome = await wire.next()
        return wire


@contextlib.asynccontextmanager
async def system(directory: Path) -> AsyncIterator[System]:
    made = System(directory)
    for name in ("broker_1", "broker_2"):
        made.new_key(name, broker=name)
    try:
        await made.start()
        yield made
    finally:
        await made.stack.aclose()
