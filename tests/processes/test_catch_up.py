"""The past from neighbours' caches before anybody asks the store; old records recalled."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from typing import Any

import httpx
import pytest

from tocsin.client import Client
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


class Person:
    """Asks a broker over HTTP, and is never connected."""

    def __init__(self, system: System, broker: str) -> None:
        token = system.token(f"p{uuid.uuid4().hex}", "subscribe")
        self._http = httpx.AsyncClient(
            base_url=system.broker_urls[broker],
            headers={"Authorization": f"Bearer {token}"},
            timeout=60.0,  # longer than the broker is asked to wait
        )
        self.info: dict[str, Any] = {}

    async def subscribe(
        self, channel: str, arguments: dict[str, Any], past: dict[str, int] | None = None
    ) -> None:
        body = {"channel": channel, "arguments": arguments, "from": past}
        answer = await self._http.post("/v1/subscriptions", json=body)
        assert answer.status_code == 200, answer.text
        self.info = answer.json()

    async def results(self, wait_s: float = 0.0) -> dict[str, Any]:
        path = f"/v1/subscriptions/{self.info['subscription']}/results"
        answer = await self._http.get(path, params={"wait_s": wait_s})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def until(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(60):
            while len(found := (await self.results(5.0))["results"]) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return list(found)

    async def acknowledge(self, position: int) -> None:
        path = f"/v1/subscriptions/{self.info['subscription']}/ack"
        body = {"epoch": self.info["epoch"], "position": position}
        assert (await self._http.post(path, json=body)).status_code == 200

    async def recall(self, dataset: str, where: str) -> list[dict[str, Any]]:
        body = {"dataset": dataset, "where": where, "wait_s": 0.5}
        answer = await self._http.post("/v1/recall", json=body)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["found"])

    async def near_bytes(self) -> float:
        text = (await self._http.get("/metrics")).text
        (found,) = re.findall(r"^tocsin_broker_near_bytes_total\{.*\} (\S+)", text, re.M)
        return float(found)


async def linked(system: System) -> None:
    token = system.token("admin", "admin")
    ends_at = time.monotonic() + 30
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        for url in system.broker_urls.values():
            while not (await http.get(f"{url}/v1/overlay")).json()["neighbours"]:
                assert time.monotonic() < ends_at
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("kind", ["channel", "dataset"])
async def test_a_newcomer_gets_the_past_from_a_neighbour_and_only_the_rest_from_the_store(
    live: System, kind: str
) -> None:
    await linked(live)
    name = f"past_{kind}"
    async with Client(
        cluster=live.cluster_url, token=live.token("admin", "admin", "publish")
    ) as at:
        await at.sql(f"CREATE DATASET {name} (n INT, kind STRING) ROUTED")
        if kind == "channel":
            await at.sql(
                "CREATE CONTINUOUS CHANNEL past_channel(kind STRING) AS"
                " SELECT r.n FROM NEW past_channel r WHERE r.kind = :kind"
            )
            asked: tuple[str, dict[str, Any]] = name, {"kind": "flood"}
        else:
            asked = f"dataset/{name}", {"where": "kind = 'flood'"}
        ann = Person(live, "broker_1")  # has it cached at her broker, because she is away
        await ann.subscribe(*asked)
        for n in range(20):
            await at.publish(name, [{"n": n, "kind": "flood"}, {"n": -n, "kind": "fire"}])
        mine = await ann.until(20)
        assert [one["value"]["n"] for one in mine] == list(range(20))

        eve = Person(live, "broker_2")
        before = await eve.near_bytes()
        await eve.subscribe(*asked, {"last": 15})
        told = await eve.results()
        assert [one["position"] for one in told["results"]] == [o["position"] for o in mine[5:]]
        assert (told["fetched"], told["from_neighbours"], told["cached"]) == (0, 15, 0)
        assert await eve.near_bytes() > before

        await ann.acknowledge(mine[9]["position"])  # her broker forgets what she has read
        fay = Person(live, "broker_2")
        await fay.subscribe(*asked, {"seconds": 3600})
        told = await fay.results()
        assert [one["position"] for one in told["results"]] == [o["position"] for o in mine]
        assert (told["fetched"], told["from_neighbours"], told["cached"]) == (10, 10, 0)

        await at.publish(name, {"n": 20, "kind": "flood"})
        assert [one["value"]["n"] for one in await fay.until(21)] == list(range(21))


async def test_old_records_are_recalled_from_where_they_are_cached(live: System) -> None:
    await linked(live)
    async with Client(
        cluster=live.cluster_url, token=live.token("admin", "admin", "publish")
    ) as at:
        await at.sql("CREATE DATASET recalled (n INT, kind STRING) ROUTED")
        ann, eve = Person(live, "broker_1"), Person(live, "broker_2")
        await ann.subscribe("dataset/recalled", {"where": "kind = 'flood'"})
        for n in range(4):
            await at.publish("recalled", {"n": n, "kind": "flood" if n % 2 else "fire"})
        await ann.until(2)
        assert await eve.recall("recalled", "kind = 'fire'") == []  # nobody wanted it
        await eve.subscribe("dataset/recalled", {"where": "kind = 'flood' AND n > 2"})
        found = await eve.recall("recalled", "kind = 'flood' AND n > 2")
        assert [(one["record"]["n"], one["hops"]) for one in found] == [(3, 1)]
        found = await eve.recall("recalled", "kind = 'flood' AND n > 2")
        assert [(one["record"]["n"], one["hops"]) for one in found] == [(3, 0)]  # cached since
        assert 0 <= found[0]["took_s"] < 0.5  # from this very broker, in no time
