"""A broker passes publications on to the cluster: the publisher's words in, the cluster's out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect

from broker.world import World, token
from tocsin.client import Client
from tocsin.errors import Forbidden, InvalidInput, RecordError

PATH = "/v1/datasets/reports/records"
LINES = b'{"a":1}\n{"a":2}'
KEYED = {"idempotency-key": "k1", "content-type": "application/x-ndjson"}


async def test_a_publication_goes_through_as_it_is_and_is_taken_once(world: World) -> None:
    http = await world.http(await world.broker(), "ann", "publish")
    for _ in range(2):
        answer = await http.post(PATH, content=LINES, headers=KEYED)
        assert answer.status_code == 200
        assert answer.json() == {"accepted": 2, "rejected": 0, "end": 2, "errors": []}
    assert world.cluster.published == [("reports", [{"a": 1}, {"a": 2}])]


async def test_the_clusters_refusal_comes_back_as_it_is(world: World) -> None:
    http = await world.http(await world.broker(), "ann", "publish")
    answer = await http.post(PATH, content=b'{"bad":1}', headers=KEYED)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "bad"
    world.cluster.down = True
    answer = await http.post(PATH, content=LINES, headers=KEYED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_a_token_in_the_address_is_refused_where_a_header_can_be_set(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "ann", "publish")
    del http.headers["authorization"]
    path = f"{PATH}?token={token('ann', 'publish')}"
    for authorization in ({}, {"authorization": f"Bearer {token('ann', 'publish')}"}):
        answer = await http.post(path, content=LINES, headers=KEYED | authorization)
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "token")
    assert world.cluster.published == []


async def test_who_may_not_publish_and_what_is_too_large_go_no_farther(world: World) -> None:
    broker = await world.broker(body_limit_bytes=100)
    listener = await world.http(broker, "eve", "subscribe")
    assert (await listener.post(PATH, content=LINES, headers=KEYED)).status_code == 403
    http = await world.http(broker, "ann", "publish")
    answer = await http.post(PATH, content=b" " * 101, headers=KEYED)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert world.cluster.published == []


async def test_a_client_without_a_cluster_publishes_through_a_broker(world: World) -> None:
    broker = await world.broker()
    publisher = token("ann", "publish")
    for known in ({"coordinator": world.coordinator_url}, {"broker": broker.url}):
        options: dict[str, Any] = known
        async with Client(token=publisher, **options) as client:
            assert (await client.publish("reports", {"a": 1})).accepted == 1
            assert (await client.publish("reports", iter([{"a": 2}]))).accepted == 1
            with pytest.raises(RecordError):
                await client.publish("reports", [{"bad": 1}])
    assert len(world.cluster.published) == 4
    async with Client(world.coordinator_url, token=token("eve", "subscribe")) as client:
        with pytest.raises(Forbidden):
            await client.publish("reports", {"a": 1})
    async with Client(broker="ws://127.0.0.1:1/v1/ws", token=publisher) as client:
        with pytest.raises(InvalidInput, match="no cluster"):
            await client.publish("reports", {"a": 1})


async def test_another_broker_takes_over_and_nothing_is_there_twice(world: World) -> None:
    brokers = {
        "broker_1": await world.broker("broker_1"),
        "broker_2": await world.broker("broker_2"),
    }
    async with Client(world.coordinator_url, token=token("ann", "publish")) as client:
        await client.publish("reports", {"a": 1})
        assert client._relay is not None
        await world.crash(brokers[client._relay[0]])
        assert (await client.publish("reports", {"a": 2})).accepted == 1
    records = [record["a"] for _, many in world.cluster.published for record in many]
    assert records == [1, 2]


async def test_records_are_published_over_a_websocket_in_order_and_once(world: World) -> None:
    broker = await world.broker()
    url = f"{broker.ws_url}?token={token('ann', 'subscribe', 'publish')}"
    async with connect(url) as socket:
        await socket.recv()
        for n in range(3):
            frame = {"op": "publish", "ref": n, "dataset": "reports", "records": {"a": n}}
            await socket.send(msgspec.json.encode(frame | {"key": f"k{n}"}).decode())
        twice = {"op": "publish", "ref": "again", "dataset": "reports", "records": {"a": 0}}
        await socket.send(msgspec.json.encode(twice | {"key": "k0"}).decode())
        told = [msgspec.json.decode(await socket.recv()) for _ in range(4)]
        assert [one["op"] for one in told] == ["published"] * 4
        assert [one["ref"] for one in told] == [0, 1, 2, "again"]
        bad = {"op": "publish", "ref": 9, "dataset": "reports", "records": {"bad": 1}, "key": "b"}
        await socket.send(msgspec.json.encode(bad).decode())
        refused = msgspec.json.decode(await socket.recv())
        assert (refused["accepted"], refused["errors"][0]["field"]) == (0, "bad")
    assert [records for _, records in world.cluster.published] == [[{"a": n}] for n in range(3)]


async def test_who_may_not_publish_is_told_over_a_websocket_and_stays(world: World) -> None:
    broker = await world.broker()
    async with connect(f"{broker.ws_url}?token={token('eve', 'subscribe')}") as socket:
        await socket.recv()
        await socket.send('{"op":"publish","ref":1,"dataset":"reports","records":{"a":1}}')
        told = msgspec.json.decode(await socket.recv())
        assert (told["op"], told["error"]["code"]) == ("error", "forbidden")
        await socket.send('{"op":"ping","ref":2}')
        assert msgspec.json.decode(await socket.recv()) == {"op": "pong", "ref": 2}
    assert world.cluster.published == []
