"""Attachments of private records are read by those whose results mention them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from broker.world import until
from cluster.private import Private, private, token

PHOTO = b"what only alice may see" * 100


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Private]:
    async with private(tmp_path) as made:
        yield made


async def _subscribed(client: httpx.AsyncClient) -> int:
    body = {"channel": "dataset/notes", "arguments": {}}
    answer = await client.post("/v1/subscriptions", json=body)
    assert answer.is_success, answer.text
    number: int = answer.json()["subscription"]
    return number


async def _positions(client: httpx.AsyncClient, number: int, count: int) -> list[int]:
    while True:
        answer = await client.get(f"/v1/subscriptions/{number}/results?wait_s=5")
        results = answer.json()["results"]
        if len(results) == count:
            return [result["position"] for result in results]


async def test_only_those_whose_result_mentions_it_read_an_attachment(world: Private) -> None:
    publisher = await world.at_cluster(token("cam", "publish"))
    uploaded = (await publisher.post("/v1/attachments", content=PHOTO)).json()
    alice, mallory = await world.at_broker(token("alice")), await world.at_broker(token("mallory"))
    hers, theirs = await _subscribed(alice), await _subscribed(mallory)
    notes = [
        {"id": 1, "owner": "alice", "kind": "a", "photo": uploaded},
        {"id": 2, "owner": "mallory", "kind": "a"},
        {"id": 3, "owner": "alice", "kind": "a"},
    ]
    await world.cluster.publish_all("notes", notes)

    first, second = await _positions(alice, hers, 2)
    (own,) = await _positions(mallory, theirs, 1)
    page = f"/v1/attachments/{uploaded['id']}"
    led = f"{page}?subscription={hers}&position={first}"
    at_cluster = await world.at_cluster(token("alice"))
    for client in (alice, at_cluster, alice):
        assert (await client.get(led)).content == PHOTO
        assert (await client.head(led)).is_success
        assert (await client.get(page)).status_code == 403
    wrong = await alice.get(f"{page}?subscription={hers}&position={second}")
    assert wrong.status_code in (200, 404)  # the broker knows already that hers mentions it
    assert (
        await at_cluster.get(f"{page}?subscription={hers}&position={second}")
    ).status_code == 404
    for client in (mallory, await world.at_cluster(token("mallory", "subscribe", "publish"))):
        ways = (f"?subscription={theirs}&position={p}" for p in (own, first, second, own + 1))
        for way in (
            "",
            f"?subscription={hers}&position={first}",
            "?subscription=99&position=1",
            *ways,
        ):
            for path in (page, page.removeprefix("/v1")):
                refused = await client.get(path + way)
                assert refused.status_code in (403, 404), (way, refused.text)
                assert PHOTO not in refused.content
    for bearer in (token("root", "admin", "subscribe"), token("b", "broker")):
        assert (await (await world.at_cluster(bearer)).get(page)).content in (PHOTO, b"")
    ended = await alice.delete(f"/v1/subscriptions/{hers}")
    assert ended.is_success
    await until(lambda: not world.broker.driver.machine.serves("alice", hers))
    assert (await alice.get(led)).status_code == 404


async def test_without_anything_private_an_id_is_enough(world: Private) -> None:
    admin = await world.at_cluster(token("root", "admin", "publish"))
    for statement in ("DROP DATASET notes", "CREATE DATASET pictures (photo ATTACHMENT)"):
        answer = await admin.post("/v1/statements", json={"sql": statement})
        assert answer.is_success, answer.text
    uploaded = (await admin.post("/v1/attachments", content=PHOTO)).json()
    for client in (await world.at_broker(token("bob")), await world.at_cluster(token("bob"))):
        assert (await client.get(f"/v1/attachments/{uploaded['id']}")).content == PHOTO
