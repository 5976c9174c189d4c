from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tocsin.coordinator import app
from tocsin.service.tokens import mint
from tocsin.settings import Settings

SETTINGS = Settings(secret="a secret of some length for the tests alone", heartbeat_s=1.0)
BEAT = {"url": "http://b", "ws_url": "ws://b", "connections": 1, "subscriptions": 2}


def bearer(*scopes: str) -> dict[str, str]:
    token = mint(SETTINGS.secret, "tester", scopes, expires_s=60, now=time.time())
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app(SETTINGS))
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator") as client:
        yield client


async def test_a_client_is_told_the_broker_that_reported(http: httpx.AsyncClient) -> None:
    beat = await http.put("/v1/brokers/b-1", json=BEAT, headers=bearer("broker"))
    assert beat.json() == {"interval_s": 1.0}
    told = (await http.get("/v1/broker", headers=bearer("subscribe"))).json()
    assert (told["name"], told["url"], told["ws_url"]) == ("b-1", "http://b", "ws://b")
    (listed,) = (await http.get("/v1/brokers", headers=bearer("publish"))).json()["brokers"]
    assert listed["alive"]
    assert listed["subscriptions"] == 2


async def test_without_brokers_the_answer_is_503_with_a_typed_error(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.get("/v1/broker", headers=bearer("subscribe"))
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"


async def test_a_broker_that_left_is_not_told(http: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await http.put(f"/v1/brokers/{name}", json=BEAT, headers=bearer("broker"))
    await http.delete("/v1/brokers/a", headers=bearer("broker"))
    for _ in range(3):
        told = (await http.get("/v1/broker", headers=bearer("subscribe"))).json()
        assert told["name"] == "b"


async def test_several_brokers_can_be_excluded(http: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await http.put(f"/v1/brokers/{name}", json=BEAT, headers=bearer("broker"))
    query = "/v1/broker?exclude=a&exclude=b"
    told = (await http.get(query, headers=bearer("subscribe"))).json()
    assert told["name"] == "c"


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("PUT", "/v1/brokers/b", "subscribe"),
        ("DELETE", "/v1/brokers/b", "admin"),
        ("GET", "/v1/broker", "broker"),
    ],
)
async def test_routes_check_scopes(
    http: httpx.AsyncClient, method: str, path: str, scope: str
) -> None:
    assert (await http.request(method, path, headers=bearer(scope))).status_code == 403
    assert (await http.request(method, path)).status_code == 401


async def test_a_heartbeat_that_does_not_fit_names_the_field(http: httpx.AsyncClient) -> None:
    bad = BEAT | {"connections": -1}
    answer = await http.put("/v1/brokers/b", json=bad, headers=bearer("broker"))
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "connections"
