from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from tocsin.coordinator import app
from tocsin.errors import SettingError
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
    beat = await http.put("/v1/brokers/b_1", json=BEAT, headers=bearer("broker"))
    assert beat.json() == {
        "interval_s": 1.0,
        "place": 0,
        "overlay": {"entry": "b_1", "neighbours": {}},
        "alive": 1,
    }
    told = (await http.get("/v1/broker", headers=bearer("subscribe"))).json()
    assert (told["name"], told["url"], told["ws_url"]) == ("b_1", "http://b", "ws://b")
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


@pytest.mark.parametrize("name", ["Broker", "two words", "b%00", "b%2F1", "ß", "b" * 64])
async def test_a_broker_whose_name_no_statement_could_say_is_refused(
    http: httpx.AsyncClient, name: str
) -> None:
    answer = await http.put(f"/v1/brokers/{name}", json=BEAT, headers=bearer("broker"))
    assert answer.status_code in (400, 404)
    assert (await http.get("/v1/brokers", headers=bearer("publish"))).json()["brokers"] == []


@pytest.mark.parametrize(
    ("field", "address"),
    [
        *(("url", bad) for bad in ("", "b", "ftp://b", "http://", "http://b c", "http://b:99999")),
        *(("ws_url", bad) for bad in ("http://b", "ws://", "ws://b:port", "ws://b\n")),
    ],
)
async def test_an_address_that_nobody_could_be_sent_to_is_refused_by_its_field(
    http: httpx.AsyncClient, field: str, address: str
) -> None:
    beat = {**BEAT, field: address}
    answer = await http.put("/v1/brokers/b_1", json=beat, headers=bearer("broker"))
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field
    assert (await http.get("/v1/brokers", headers=bearer("publish"))).json()["brokers"] == []


async def test_the_tree_is_told_to_its_brokers_and_shown_to_anybody(
    http: httpx.AsyncClient,
) -> None:
    for name in ("b", "a", "c"):
        beat = BEAT | {"ws_url": f"ws://{name}"}
        answer = await http.put(f"/v1/brokers/{name}", json=beat, headers=bearer("broker"))
    assert answer.json()["overlay"] == {"entry": "b", "neighbours": {"b": "ws://b"}}
    shown = await http.get("/v1/overlay", headers=bearer("publish"))
    assert shown.json() == {
        "entry": "b",
        "brokers": ["b", "a", "c"],
        "links": [["a", "b"], ["b", "c"]],
    }
    assert (await http.get("/v1/overlay")).status_code == 401


async def test_without_brokers_there_is_no_tree(http: httpx.AsyncClient) -> None:
    shown = await http.get("/v1/overlay", headers=bearer("publish"))
    assert shown.json() == {"entry": None, "brokers": [], "links": []}


async def test_the_tree_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tree.toml"
    file.write_text('links = [["a", "b"], ["b", "c"]]')
    service = app(msgspec.structs.replace(SETTINGS, overlay_tree=str(file)))
    transport = httpx.ASGITransport(service)
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator") as http:
        for name in ("c", "b", "a"):
            await http.put(f"/v1/brokers/{name}", json=BEAT, headers=bearer("broker"))
        shown = await http.get("/v1/overlay", headers=bearer("publish"))
    assert (shown.json()["entry"], shown.json()["links"]) == ("a", [["a", "b"], ["b", "c"]])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('brokers = ["a", "b"]\nlinks = [["a", "x"]]', "no broker is called 'x'"),
        ('links = [["a", "b"], ["b", "c"], ["c", "a"]]', "a cycle"),
        ('links = [["a", "b"], ["c", "d"]]', "fall into 2 parts"),
        ('links = "a"', "this is no tree"),
        ("links = [[", "this is no TOML"),
    ],
)
def test_a_file_that_is_no_tree_stops_the_coordinator_and_says_why(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(text)
    with pytest.raises(SettingError, match=told) as raised:
        app(msgspec.structs.replace(SETTINGS, overlay_tree=str(file)))
    assert raised.value.field == "overlay_tree"
    assert str(file) in raised.value.message


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "tree.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match=str(file)):
        app(msgspec.structs.replace(SETTINGS, overlay_tree=str(file)))
