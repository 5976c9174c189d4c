"""Peers of different versions work together, or one refuses with a line that names both."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from broker.link_network import Node
from broker.world import PATIENCE_S, World, token, until
from tocsin.broker.server.link import Limits
from tocsin.client.transport import HttpClient
from tocsin.errors import InvalidInput, UpgradeRequired
from tocsin.protocol import version
from tocsin.protocol.version import HEADER, check_peer

TOLD = [("3", True), ("4", True), ("2", True), ("1", False), (None, True)]
"""What a peer tells one that speaks 3 and understands 2, and whether they work together."""


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "VERSION", 3)
    monkeypatch.setattr(version, "OLDEST", 2)


def headers(told: str | None, *scopes: str, subject: str = "alice") -> dict[str, str]:
    known = {"authorization": f"Bearer {token(subject, *scopes)}"}
    return known if told is None else {**known, HEADER: told}


@pytest.mark.usefixtures("newer")
def test_a_refusal_names_both_versions_and_what_to_upgrade() -> None:
    with pytest.raises(UpgradeRequired) as raised:
        check_peer("1", "broker b", "this client")
    assert raised.value.message == "broker b speaks protocol 1, this client understands 2 to 3"
    assert raised.value.hint == "upgrade broker b"


@pytest.mark.parametrize("told", ["", "one", "-1", "0", "1.5", "9" * 30])
def test_what_is_no_version_is_refused_by_name(told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_peer(told, "a", "b")
    assert raised.value.field == HEADER


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(("told", "understood"), TOLD)
@pytest.mark.parametrize("service", ["broker", "cluster", "coordinator"])
async def test_a_service_takes_calls_of_versions_that_it_understands(
    world: World, told: str | None, understood: bool, service: str
) -> None:
    broker = await world.broker()
    path, base = {
        "broker": ("/v1/cache", broker.url),
        "cluster": ("/v1/brokers/broker_1/news", world.cluster.url),
        "coordinator": ("/v1/overlay", world.coordinator_url),
    }[service]
    async with httpx.AsyncClient(base_url=base) as http:
        answer = await http.get(path, headers=headers(told, "broker", subject="b"))
    assert answer.headers[HEADER] == "3"
    assert answer.status_code == (200 if understood else 426), answer.text
    if not understood:
        error = answer.json()["error"]
        assert error["code"] == "upgrade_required"
        assert "broker b speaks protocol 1" in error["message"]
        assert "understands 2 to 3" in error["message"]


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(("told", "understood"), TOLD)
async def test_a_broker_takes_sockets_of_versions_that_it_understands(
    world: World, told: str | None, understood: bool
) -> None:
    broker = await world.broker()
    if understood:
        async with connect(broker.ws_url, additional_headers=headers(told)) as socket:
            assert '"op":"welcome"' in str(await socket.recv(decode=True))
        return
    with pytest.raises(InvalidStatus) as refused:
        await connect(broker.ws_url, additional_headers=headers(told))
    assert refused.value.response.status_code == 426
    assert b"the client speaks protocol 1" in (refused.value.response.body or b"")


@pytest.mark.usefixtures("newer")
async def test_a_browser_that_is_too_old_finds_the_reason_in_a_frame_and_a_code(
    world: World,
) -> None:
    broker = await world.broker()
    async with connect(f"{broker.ws_url}?token={token('alice')}&protocol=1") as socket:
        frame = str(await socket.recv(decode=True))
        assert "the client speaks protocol 1, this broker understands 2 to 3" in frame
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 4426


async def test_a_client_refuses_a_broker_that_is_too_old(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "VERSION", 2)
    monkeypatch.setattr(version, "OLDEST", 2)
    await world.broker("old")  # its welcome says 1
    client = await world.client("alice")
    with pytest.raises(UpgradeRequired, match="broker old speaks protocol 1, this client under"):
        await client.subscribe("floods", type="a")


async def test_a_broker_refuses_a_cluster_that_is_too_old(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "OLDEST", 2)
    with pytest.raises(UpgradeRequired, match="speaks protocol 1, broker new understands 2"):
        await world.broker("new")


@pytest.mark.usefixtures("newer")
async def test_a_call_tells_the_version_of_the_caller() -> None:
    async with HttpClient() as http:
        assert http.headers[HEADER] == "3"


# Links


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(("told", "understood"), TOLD)
async def test_a_link_is_accepted_from_versions_that_are_understood(
    told: str | None, understood: bool
) -> None:
    node = Node("b")
    await node.start()
    node.links.set_neighbours({"a": "ws://127.0.0.1:1/v1/ws"})
    hello = "broker=a&incarnation=1" + ("" if told is None else f"&protocol={told}")
    url = node.ws_url.removesuffix("/v1/ws") + "/v1/link?" + hello
    bearer = headers(None, "broker", subject="a")
    try:
        if understood:
            async with connect(url, additional_headers=bearer):
                await until(lambda: node.links.up == 1)
        else:
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=bearer)
            assert refused.value.response.status_code == 426
            assert b"broker a speaks protocol 1" in (refused.value.response.body or b"")
    finally:
        await node.stop()


async def test_a_neighbour_that_is_too_old_is_not_linked_with_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(version, "OLDEST", 2)
    monkeypatch.setattr("tocsin.broker.server.links.VERSION", 2)  # b answers that it speaks 1
    nodes = [Node("a", Limits(most_backoff_s=0.02)), Node("b")]
    for node in nodes:
        await node.start()
    with capture_logs() as logs:
        for node in nodes:
            node.links.set_neighbours(
                {other.name: other.ws_url for other in nodes if other is not node}
            )
        await asyncio.sleep(min(1.0, PATIENCE_S))
    for node in nodes:
        await node.stop()
    reasons = [entry["reason"] for entry in logs if entry["event"].startswith("no link")]
    assert reasons == ["broker b speaks protocol 1, broker a understands 2 (upgrade broker b)"]
    assert not [event for event in nodes[0].told if event[0] == "linked"]
