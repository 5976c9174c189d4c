"""A real broker before a real cluster, with quotas: who has too much is told by WebSocket, events
and REST alike, and no crowd gets past them by any way, nor harms who keeps to them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from websockets.asyncio.client import connect

from broker.world import PATIENCE_S, Wire, until
from cluster.sparkless import SECRET, SparklessCluster
from cluster.test_grants import furnished, sql
from tocsin.broker.server import Broker
from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.errors import QuotaExceeded
from tocsin.protocol.client import OVER_QUOTA
from tocsin.service.tokens import mint
from tocsin.settings import Settings

RECORDS = "/v1/datasets/reports/records"
SUBSCRIPTIONS = "/v1/subscriptions"


def token(subject: str, *roles: str) -> str:
    scopes = ("subscribe", "publish")
    return mint(SECRET, subject, scopes, expires_s=600, now=time.time(), roles=roles)


class City:
    """A cluster, a broker, and calls to both."""

    def __init__(self, cluster: SparklessCluster, broker: Broker, http: httpx.AsyncClient) -> None:
        self.cluster = cluster
        self.broker = broker
        self.http = http
        self._stack = contextlib.AsyncExitStack()

    async def sql(self, text: str) -> None:
        await sql(self.cluster, text)

    async def call(
        self, url: str, shown: str, method: str, path: str, body: Any = None
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {shown}"}
        return await self.http.request(method, url + path, json=body, headers=headers)

    async def wire(self, shown: str) -> Wire:
        """A connection, whose first frame is its `welcome`, whatever that says."""
        url = f"{self.broker.ws_url}?token={shown}"
        wire = Wire(await self._stack.enter_async_context(connect(url, compression=None)))
        wire.welcome = await wire.next()
        return wire

    async def client(self, shown: str, **options: Any) -> Client:
        made = Client(broker=self.broker.url, token=shown, reconnect_most_s=0.1, **options)
        return await self._stack.enter_async_context(made)

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture(name="city")
async def _city(tmp_path: Path) -> AsyncIterator[City]:
    async with (
        furnished(tmp_path) as cluster,
        httpx.AsyncClient(timeout=PATIENCE_S, verify=tls()) as http,
    ):
        settings = Settings(
            secret=SECRET,
            broker_port=0,
            broker_ws_port=0,
            cluster_url=cluster.url,
            coordinator_url="http://127.0.0.1:9",  # nobody is needed there
            news_poll_s=0.1,
        )
        async with Broker(settings) as broker:
            city = City(cluster, broker, http)
            await city.sql("CREATE ROLE nurses; CREATE ROLE cooks")
            try:
                yield city
            finally:
                await city.close()


def refusals(quota: str) -> float:
    return REGISTRY.get_sample_value("tocsin_quota_refusals_total", {"quota": quota}) or 0.0


async def test_who_has_all_its_connections_is_refused_one_more_and_told_why(city: City) -> None:
    await city.sql("SET QUOTA connections = 2 FOR ROLE nurses")
    ann = token("ann", "nurses")
    first, second = [await city.wire(ann) for _ in range(2)]
    assert [first.welcome["op"], second.welcome["op"]] == ["welcome", "welcome"]
    before = refusals("connections")
    third = await city.wire(ann)
    error = third.welcome["error"]
    assert (third.welcome["op"], error["code"]) == ("error", "quota_exceeded")
    assert (error["field"], "ann has 2 of 2" in error["message"]) == ("connections", True)
    assert await third.closed() == OVER_QUOTA
    events = await city.call(city.broker.url, ann, "GET", "/v1/events")
    assert (events.status_code, "retry-after" in events.headers) == (429, False)
    assert refusals("connections") == before + 2
    assert (await city.wire(token("bob"))).welcome["op"] == "welcome"
    assert (await city.wire(token("ann", "cooks"))).welcome["op"] == "welcome"  # another role
    await first.socket.close()
    await second.socket.close()
    await until(lambda: len(city.broker.driver.connections) == 2)
    assert (await city.wire(ann)).welcome["op"] == "welcome"  # one of ann's is left


async def test_a_client_raises_what_nobody_can_wait_for(city: City) -> None:
    await city.sql("SET QUOTA connections = 1 FOR EVERYBODY")
    await city.sql("SET QUOTA subscriptions = 1 FOR EVERYBODY")
    client = await city.client(token("ann"))
    await client.subscribe("alerts", n=1)
    with pytest.raises(QuotaExceeded, match="ann uses 1 of 1 subscriptions") as over:
        await client.subscribe("alerts", n=2)
    assert over.value.retry_after_s is None
    with pytest.raises(QuotaExceeded, match="ann has 1 of 1 connections"):
        await (await city.client(token("ann"))).subscribe("alerts", n=1)


async def test_a_client_that_was_connected_comes_back_when_its_lost_connection_is_given_up(
    city: City,
) -> None:
    await city.sql("SET QUOTA connections = 1 FOR EVERYBODY")
    client = await city.client(token("ann"))
    await client.subscribe("alerts", n=1)
    (lost,) = city.broker.sockets.connections
    await city.sql("SET QUOTA connections = 0 FOR EVERYBODY")
    before = refusals("connections")
    assert lost._transport is not None
    lost._transport.disconnect(False)
    await until(lambda: refusals("connections") > before)
    assert client.broker is None
    await city.sql("SET QUOTA connections = 1 FOR EVERYBODY")
    await until(lambda: client.broker is not None)


async def test_a_client_publishes_again_when_there_is_room(city: City) -> None:
    await city.sql("SET QUOTA publications = 5 PER SECOND FOR EVERYBODY")
    client = await city.client(token("ann"))
    records = [{"n": number} for number in range(5)]
    before, began = refusals("publications"), time.monotonic()
    await client.publish("reports", records)
    await client.publish("reports", records)
    assert time.monotonic() - began >= 1.0
    assert refusals("publications") == before + 1
    await client.publish("reports", [{"n": number} for number in range(1000)])
    with pytest.raises(QuotaExceeded) as over:  # after 200 s: nobody waits so long unasked
        await client.publish("reports", records)
    assert over.value.retry_after_s is not None
    assert over.value.retry_after_s > 100
    refused = await city.call(city.broker.url, token("ann"), "POST", RECORDS, records)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 100


async def test_attachments_through_a_broker_are_charged_to_who_sends_them(city: City) -> None:
    await city.sql(
        "CREATE DATASET photos (n INT, photo ATTACHMENT);"
        "SET QUOTA bytes = 1000 PER SECOND FOR EVERYBODY"
    )
    headers = {"authorization": f"Bearer {token('ann')}"}
    parts = {"record": b'{"n": 1}', "photo": b"x" * 10_000}
    path = f"{city.broker.url}/v1/datasets/photos/records"
    sent = await city.http.post(path, files=parts, headers=headers)
    assert (sent.status_code, sent.json()["accepted"]) == (200, 1)
    refused = await city.http.post(path, files=parts, headers=headers)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 10
    assert city.cluster.log.ends()["photos"] == sent.json()["end"]

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    unannounced = await city.http.post(
        f"{city.broker.url}/v1/attachments", content=pieces(), headers=headers
    )
    assert (unannounced.status_code, unannounced.json()["error"]["field"]) == (
        400,
        "Content-Length",
    )


class Attack:
    """A crowd that does as it likes, at once and by every way."""

    def __init__(self, city: City, draw: Random) -> None:
        self.city = city
        self.draw = draw
        self.accepted: Counter[str] = Counter()  # records, by subject
        self.refused: Counter[str] = Counter()  # requests, by subject
        self.began = time.monotonic()

    async def subscribe(self, shown: str, subject: str) -> None:
        number, name = self.draw.randint(1, 12), self.draw.choice(("alerts", "others"))
        body = {"channel": name, "arguments": {"n": number}}
        statements = {"sql": f"SUBSCRIBE TO {name}({number}); SUBSCRIBE TO {name}({number + 1})"}
        ways = (
            (self.city.cluster.url, SUBSCRIPTIONS, body),
            (self.city.cluster.url, "/v1/statements", statements),
            (self.city.broker.url, SUBSCRIPTIONS, body),
        )
        await self._post(shown, subject, *self.draw.choice(ways))

    async def publish(self, shown: str, subject: str) -> None:
        records = [{"n": number} for number in range(self.draw.randint(1, 6))]
        rows = ", ".join(f"({record['n']})" for record in records)
        statement = {"sql": f"INSERT INTO reports VALUES {rows}"}  # noqa: S608
        ways = (
            (self.city.cluster.url, RECORDS, records),
            (self.city.cluster.url, "/v1/statements", statement),
            (self.city.broker.url, RECORDS, records),
        )
        if await self._post(shown, subject, *self.draw.choice(ways)):
            self.accepted[subject] += len(records)

    async def _post(self, shown: str, subject: str, url: str, path: str, body: Any) -> bool:
        answer = await self.city.call(url, shown, "POST", path, body)
        assert answer.status_code in (200, 429), answer.text
        self.refused[subject] += answer.status_code == 429
        return answer.status_code == 200

    async def by_socket(self, shown: str, subject: str) -> None:
        """Connect, and if that is allowed, subscribe, publish and stay for a moment."""
        wire = await self.city.wire(shown)
        if wire.welcome["op"] == "error":
            assert await wire.closed() == OVER_QUOTA
            self.refused[subject] += 1
            return
        connected = len(self.city.broker.driver.core.table.of(subject).connections)
        assert subject not in LIMITED or connected <= 3
        n = self.draw.randint(1, 12)
        await wire.send(op="subscribe", ref=1, channel="alerts", arguments={"n": n})
        await wire.send(op="publish", ref=2, dataset="reports", records=[{"n": 1}])
        for ref, done in ((1, "subscribed"), (2, "published")):
            while True:
                frame = await wire.next()
                if frame.get("ref") == ref:
                    break
            assert frame["op"] == done or frame["error"]["code"] == "quota_exceeded"
            self.refused[subject] += frame["op"] == "error"
            self.accepted[subject] += frame["op"] == "published"
        await wire.socket.close()

    def check(self) -> None:
        seconds = time.monotonic() - self.began
        for subject in LIMITED:
            used = self.city.cluster.store.quotas.used(subject)
            assert used.total() <= 6
            assert max(used.values(), default=0) <= 4
            assert self.accepted[subject] <= 8 * seconds + 8


LIMITED = ("ann", "bob", "carol")


@pytest.mark.parametrize("seed", range(3))
async def test_no_crowd_gets_past_its_quotas_and_nobody_else_is_harmed(
    city: City, seed: int
) -> None:
    await city.sql(
        "SET QUOTA subscriptions = 6 FOR ROLE nurses; SET QUOTA parameter_sets = 4 FOR EVERYBODY;"
        "SET QUOTA publications = 8 PER SECOND FOR ROLE nurses;"
        "SET QUOTA connections = 3 FOR ROLE nurses;"
        "SET QUOTA parameter_sets = 1000 FOR ROLE cooks"
    )
    attack = Attack(city, Random(seed))
    shown = {subject: token(subject, "nurses") for subject in LIMITED}
    shown["dave"] = token("dave", "nurses", "cooks")
    shown["erin"] = token("erin", "cooks")
    ways = (attack.subscribe, attack.publish, attack.publish, attack.by_socket)

    async def moves(subject: str) -> None:
        for _ in range(5):
            attempts: list[Awaitable[None]] = [
                attack.draw.choice(ways)(shown[subject], subject) for _ in range(5)
            ]
            await asyncio.gather(*attempts)
            attack.check()

    await asyncio.gather(*(moves(subject) for subject in (*LIMITED, "erin")))
    assert all(attack.refused[subject] for subject in LIMITED)
    assert attack.refused["erin"] == 0
    assert city.cluster.log.ends()["reports"] > 0
    await attack.publish(shown["dave"], "dave")
    assert attack.refused["dave"] == 0
