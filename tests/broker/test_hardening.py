"""Clients that misbehave harm themselves alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from broker.world import Wire, World, token, until
from tocsin.broker.machine.subscription_table import Backend
from tocsin.broker.server import Broker

BIG = {"type": "big"}
FLOOD = {"type": "flood"}


async def fill(world: World, broker: Broker, wire: Wire) -> dict[str, Any]:
    """Ask for much and read nothing, until the broker cannot get rid of its bytes."""
    made = await wire.subscribe(**BIG)
    world.cluster.produce("floods", BIG, [{"text": "x" * 8000} for _ in range(64)])
    await wire.until("signal")
    asked = 0
    while not broker.sockets.backed_up:
        await wire.send(
            op="get",
            ref=asked,
            subscription=made["subscription"],
            after=0,
            epoch=made["epoch"],
            limit=64,
        )
        asked += 1
        assert asked < 1000, "the broker never noticed"
        await until(partial(_went_on, broker, broker.driver.counts.delivered))
    return made


def _went_on(broker: Broker, before: int) -> bool:
    return bool(broker.sockets.backed_up) or broker.driver.counts.delivered > before


async def fetched(backend: Backend, position: int) -> None:
    await until(lambda: backend.fetched == position)


async def test_a_stalled_client_is_closed_with_4000_while_others_go_on(world: World) -> None:
    broker = await world.broker(stall_s=0.4, connection_bytes=64 * 1024)
    bob = await world.socket(broker, "bob")
    made = await bob.subscribe(**FLOOD)
    alice = await world.socket(broker, "alice", small=True)
    await fill(world, broker, alice)
    for n in range(1, 6):
        world.cluster.produce("floods", FLOOD, [{"n": n}])
        assert (await bob.until("signal"))["backend"] == made["backend"]
    await until(lambda: broker.driver.counts.stalled)
    assert await alice.closed() == 4000
    await bob.send(op="ping", ref=1)
    assert (await bob.until("pong"))["ref"] == 1


async def test_unsent_bytes_of_a_client_that_does_not_read_stay_bounded(world: World) -> None:
    broker = await world.broker(connection_bytes=64 * 1024)
    alice = await world.socket(broker, "alice", small=True)
    made = await fill(world, broker, alice)
    (connection,) = broker.sockets.connections
    for ref in range(200):
        await alice.send(
            op="get", ref=ref, subscription=made["subscription"], after=0, epoch=made["epoch"]
        )
    bob = await world.socket(broker, "bob")  # by now the broker has read what alice sent
    await bob.send(op="ping", ref=1)
    await bob.until("pong")
    assert connection.unsent_bytes <= 2 * 64 * 1024


async def test_signals_of_a_backed_up_client_conflate_to_the_newest(world: World) -> None:
    broker = await world.broker(connection_bytes=64 * 1024)
    alice = await world.socket(broker, "alice", small=True)
    made = await alice.subscribe(**FLOOD)
    await fill(world, broker, alice)
    backend = broker.driver.core.table.backends[made["backend"]]
    for n in range(1, 51):
        world.cluster.produce("floods", FLOOD, [{"n": n}])
        await fetched(backend, n)
    heads = []
    while 50 not in heads:
        frame = await alice.until("signal")
        if frame["backend"] == made["backend"]:
            heads.append(frame["head"])
    assert heads == [50]


async def test_inline_results_give_way_to_a_signal_when_the_client_is_behind(
    world: World,
) -> None:
    broker = await world.broker(connection_bytes=64 * 1024)
    alice = await world.socket(broker, "alice", small=True, inline=1)
    made = await alice.subscribe(**FLOOD)
    backend = broker.driver.core.table.backends[made["backend"]]
    (connection,) = broker.sockets.connections
    n = 0
    while not connection.paused:
        n += 1
        world.cluster.produce("floods", FLOOD, [{"text": "x" * 8000}])
        await fetched(backend, n)
    for n in range(n + 1, n + 21):  # noqa: B020
        world.cluster.produce("floods", FLOOD, [{"text": "x" * 8000}])
        await fetched(backend, n)
    assert connection.unsent_bytes <= 2 * 64 * 1024
    signal = await alice.until("signal")
    assert signal["head"] == n


async def test_what_is_not_json_is_explained_and_closed_with_4400(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice")
    await alice.socket.send("this is not JSON")
    error = (await alice.next())["error"]
    assert (error["code"], error["field"]) == ("invalid_input", "frame")
    assert await alice.closed() == 4400


@pytest.mark.parametrize("text", ["[1, 2]", '"get"', "17"])
async def test_a_frame_that_is_no_object_closes_with_4400(world: World, text: str) -> None:
    alice = await world.socket(await world.broker(), "alice")
    await alice.socket.send(text)
    assert (await alice.next())["op"] == "error"
    assert await alice.closed() == 4400


async def test_a_binary_frame_closes_with_4400(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice")
    await alice.socket.send(b'{"op":"ping"}')
    assert await alice.closed() == 4400


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"op": "dance", "ref": 1}, "op"),
        ({"ref": 1}, "op"),
        ({"op": "get", "ref": 1}, "subscription"),
        ({"op": "get", "ref": 1, "subscription": "five"}, "subscription"),
        ({"op": "get", "ref": 1, "subscription": 5, "limit": 0}, "limit"),
        ({"op": "get", "ref": 1, "subscription": 5, "after": -1}, "after"),
        ({"op": "subscribe", "ref": 1, "channel": 5}, "channel"),
        ({"op": "ack", "ref": 1, "subscription": 5, "epoch": "e"}, "position"),
    ],
)
async def test_a_wrong_field_is_named_and_the_connection_stays(
    world: World, frame: dict[str, Any], field: str
) -> None:
    alice = await world.socket(await world.broker(), "alice")
    await alice.send(**frame)
    told = await alice.next()
    assert (told["op"], told["ref"], told["error"]["field"]) == ("error", 1, field)
    await alice.send(op="ping", ref=2)
    assert await alice.next() == {"op": "pong", "ref": 2}


async def test_an_oversized_frame_closes_with_1009(world: World) -> None:
    alice = await world.socket(await world.broker(frame_limit_bytes=1000), "alice")
    await alice.send(op="subscribe", ref=1, channel="x" * 1000)
    assert await alice.closed() == 1009


async def test_an_oversized_message_in_small_frames_closes_with_1009(world: World) -> None:
    alice = await world.socket(await world.broker(frame_limit_bytes=1000), "alice")

    async def parts() -> AsyncIterator[str]:
        for _ in range(30):
            yield " " * 100

    await alice.socket.send(parts())
    assert await alice.closed() == 1009


async def test_a_message_in_several_frames_is_put_together(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice")

    async def parts() -> AsyncIterator[str]:
        for part in ('{"op":"pi', 'ng","r', 'ef":5}'):
            yield part

    await alice.socket.send(parts())
    assert await alice.next() == {"op": "pong", "ref": 5}


async def test_an_expired_token_closes_the_connection_with_4401(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice", expires_s=2)
    assert await alice.closed() == 4401


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 401, "unauthenticated"),
        ("?token=nonsense", 401, "unauthenticated"),
        ("?token={publisher}", 403, "forbidden"),
        ("?token={subscriber}&inline=7", 400, "invalid_input"),
        ("?token={subscriber}&batch=x", 400, "invalid_input"),
    ],
)
async def test_a_bad_upgrade_is_refused_with_the_reason(
    world: World, query: str, status: int, code: str
) -> None:
    broker = await world.broker()
    query = query.format(publisher=token("p", "publish"), subscriber=token("s"))
    with pytest.raises(InvalidStatus) as refused:
        await connect(broker.ws_url + query)
    assert refused.value.response.status_code == status
    body = refused.value.response.body
    assert body is not None
    assert f'"code":"{code}"'.encode() in body


async def test_an_unknown_path_is_refused_with_404(world: World) -> None:
    broker = await world.broker()
    with pytest.raises(InvalidStatus) as refused:
        await connect(broker.ws_url.replace("/v1/ws", "/elsewhere"))
    assert refused.value.response.status_code == 404
