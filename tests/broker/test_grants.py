"""A real broker before a real cluster, with grants in force: who lacks one is refused by WebSocket
and REST alike, and who loses one hears nothing more."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect

from broker.world import PATIENCE_S, Wire
from cluster.sparkless import ROUTED, SECRET, SparklessCluster, sparkless
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.cluster.statements import execute
from tocsin.errors import NotFound
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import Identity, mint
from tocsin.settings import Settings

ADMIN = Identity("root", frozenset({"admin", "publish", "subscribe"}), time.time() + 3600)
INTEREST = {"channel": "dataset/contract_routed", "arguments": {"where": "n > 1"}}
RECALL = {"dataset": "contract_routed", "where": "n > 1", "wait_s": 0.05}
RECORDS = "/v1/datasets/contract_routed/records"


class Ward:
    """A cluster with a routed dataset that nurses may read, and a broker."""

    def __init__(self, cluster: SparklessCluster, broker: Broker) -> None:
        self.cluster = cluster
        self.broker = broker
        self._stack = contextlib.AsyncExitStack()

    def token(self, *roles: str) -> str:
        """All are Ann's."""
        scopes = ("subscribe", "publish")
        return mint(SECRET, "ann", scopes, expires_s=600, now=time.time(), roles=roles)

    async def sql(self, text: str) -> None:
        await execute(self.cluster, text, ADMIN, None)

    async def publish(self, *numbers: int) -> None:
        await self.cluster.publish_all(ROUTED.name, [{"key": "k", "n": n} for n in numbers])

    async def wire(self, *roles: str) -> Wire:
        url = f"{self.broker.ws_url}?token={self.token(*roles)}&inline=1"
        wire = Wire(await self._stack.enter_async_context(connect(url, compression=None)))
        wire.welcome = await wire.next()
        return wire

    async def subscribe(self, wire: Wire) -> dict[str, Any]:
        await wire.send(op="subscribe", ref="s", **INTEREST)
        while True:
            frame = await wire.next()
            if frame["op"] in ("subscribed", "error"):
                return frame

    async def client(self, *roles: str) -> Client:
        settings = self.broker.driver.settings
        made = Client(settings.coordinator_url, token=self.token(*roles), reconnect_most_s=0.2)
        return await self._stack.enter_async_context(made)

    async def call(
        self, roles: tuple[str, ...], method: str, path: str, body: Any = None
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token(*roles)}"}
        async with httpx.AsyncClient(
            base_url=self.broker.url, headers=headers, timeout=PATIENCE_S, verify=tls()
        ) as http:
            return await http.request(method, path, json=body)

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture(name="ward")
async def _ward(tmp_path: Path) -> AsyncIterator[Ward]:
    listener = listen("127.0.0.1", 0)
    async with (
        sparkless(tmp_path) as cluster,
        serving(coordinator.app(Settings(secret=SECRET, heartbeat_s=0.1)), listener),
    ):
        await cluster.create_dataset(ROUTED)
        settings = Settings(
            secret=SECRET,
            broker_port=0,
            broker_ws_port=0,
            cluster_url=cluster.url,
            coordinator_url=f"http://127.0.0.1:{port_of(listener)}",
            heartbeat_s=0.1,
            news_poll_s=0.1,
        )
        broker = Broker(settings)
        await broker.start()
        ward = Ward(cluster, broker)
        await ward.sql(
            "CREATE ROLE nurses; CREATE ROLE doctors;"
            "GRANT READ ON DATASET contract_routed TO nurses;"
            "GRANT READ, PUBLISH ON DATASET contract_routed TO doctors"
        )
        try:
            yield ward
        finally:
            await ward.close()
            await ward.broker.stop()


async def test_who_has_no_grant_is_refused_by_websocket_and_rest(ward: Ward) -> None:
    refused = await ward.subscribe(await ward.wire("cooks"))
    assert (refused["op"], refused["error"]["code"]) == ("error", "not_found")
    assert refused["error"]["message"] == "there is no dataset contract_routed"
    for path, body in (("/v1/subscriptions", INTEREST), ("/v1/recall", RECALL)):
        assert (await ward.call(("cooks",), "POST", path, body)).status_code == 404
        assert (await ward.call(("nurses",), "POST", path, body)).status_code == 200
    record = {"key": "k", "n": 2}
    assert (await ward.call(("cooks",), "POST", RECORDS, record)).status_code == 404
    assert (await ward.call(("nurses",), "POST", RECORDS, record)).status_code == 403
    assert (await ward.call(("doctors",), "POST", RECORDS, record)).status_code == 200
    assert (await ward.subscribe(await ward.wire("nurses")))["op"] == "subscribed"


async def test_a_revocation_ends_a_live_connections_subscription_within_seconds(
    ward: Ward,
) -> None:
    wire = await ward.wire("nurses")
    made = (await ward.subscribe(wire))["subscription"]
    await ward.publish(2)
    assert [result["value"]["n"] for result in (await wire.until("results"))["results"]] == [2]
    began = time.monotonic()
    await ward.sql("REVOKE READ ON DATASET contract_routed FROM nurses")
    assert (await wire.until("ended"))["subscription"] == made["subscription"]
    assert time.monotonic() - began < 5
    await ward.publish(3)
    await wire.send(op="get", ref="g", subscription=made["subscription"])
    assert (await wire.next())["error"]["code"] == "not_found"  # and no results before it
    path = f"/v1/subscriptions/{made['subscription']}/results"
    assert (await ward.call(("nurses",), "GET", path)).status_code == 404
    assert (await ward.wire("nurses")).welcome["subscriptions"] == []
    assert (await ward.subscribe(wire))["op"] == "error"


async def test_a_client_is_told_of_the_end_and_goes_on_with_what_else_it_has(ward: Ward) -> None:
    await ward.cluster.create_dataset(replace(ROUTED, name="others"))
    await ward.sql("GRANT READ ON DATASET others TO nurses")
    client = await ward.client("nurses")
    revoked = await client.subscribe_to_dataset("contract_routed")
    kept = await client.subscribe_to_dataset("others")
    await ward.publish(2)
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(revoked)).value["n"] == 2
        await ward.sql("REVOKE READ ON DATASET contract_routed FROM nurses")
        assert [result async for result in revoked] == []
        await ward.publish(3)
        await ward.cluster.publish_all("others", [{"key": "k", "n": 4}])
        assert (await anext(kept)).value["n"] == 4
    assert (revoked.ended, kept.ended) == (True, False)
    with pytest.raises(NotFound, match="there is no dataset contract_routed"):
        await client.subscribe_to_dataset("contract_routed")


async def test_a_token_that_lost_its_role_gets_nothing_of_what_it_subscribed_to(
    ward: Ward,
) -> None:
    """Whoever gives out tokens took the role away; a token from before is no longer used."""
    made = (await ward.subscribe(await ward.wire("nurses")))["subscription"]
    path = f"/v1/subscriptions/{made['subscription']}/results"
    await ward.publish(2)
    assert (await ward.call(("cooks",), "GET", path)).status_code == 404
    assert (await ward.wire("cooks")).welcome["subscriptions"] == []
    assert (await ward.call(("cooks",), "GET", "/v1/subscriptions")).json()["subscriptions"] == []
    ack = {"epoch": made["epoch"], "position": made["head"]}
    acknowledging = path.replace("results", "ack")
    assert (await ward.call(("cooks",), "POST", acknowledging, ack)).status_code == 404
    # It waits for somebody who shows more, with its marker.
    back = await ward.call(("doctors",), "GET", path)
    assert [result["value"]["n"] for result in back.json()["results"]] == [2]


async def test_a_call_with_another_token_is_not_answered_from_what_is_served_anyway(
    ward: Ward,
) -> None:
    """By REST alone: the strong token has brought the subscription to the broker."""
    created = await ward.call(("nurses",), "POST", "/v1/subscriptions", INTEREST)
    path = f"/v1/subscriptions/{created.json()['subscription']}/results"
    await ward.publish(2)
    for roles, status in ((("nurses",), 200), (("cooks",), 404), (("nurses",), 200)):
        assert (await ward.call(roles, "GET", path)).status_code == status
    assert (await ward.call(("cooks",), "GET", path)).status_code == 404


async def test_a_broker_that_starts_again_loads_what_was_there_without_a_token(
    ward: Ward,
) -> None:
    made = (await ward.subscribe(await ward.wire("nurses")))["subscription"]
    settings = ward.broker.driver.settings
    await ward.broker.abort()
    ward.broker = Broker(settings)
    await ward.broker.start()
    assert list(ward.broker.driver.core.table.frontends) == [made["subscription"]]
