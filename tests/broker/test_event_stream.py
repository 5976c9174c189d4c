"""Server-sent events: what a WebSocket hears, and a client that reads nothing costs little."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from broker.world import PATIENCE_S, World, small_socket, token, until
from tocsin.broker.server import Broker
from tocsin.broker.server.event_stream import EventLine, EventResponse
from tocsin.broker.server.message import Message
from tocsin.service.tokens import Identity

FLOOD = {"type": "flood"}
NEW = {"channel": "floods", "arguments": FLOOD}
BUDGET_BYTES = 64 * 1024


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, msgspec.json.decode(line[6:])


@pytest.mark.parametrize("inline", [0, 1])
async def test_events_stream_signals_or_results(world: World, inline: int) -> None:
    broker = await world.broker()
    http = await world.http(broker, "alice")
    made = (await http.post("/v1/subscriptions", json=NEW)).json()
    async with http.stream("GET", f"/v1/events?inline={inline}") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = events(response)
        name, welcome = await anext(stream)
        assert name == "welcome"
        assert welcome["subscriptions"] == [made]
        world.cluster.produce("floods", FLOOD, [{"n": 1}])
        name, told = await anext(stream)
        assert name == ("results" if inline else "signal")
        assert (told["backend"], told["head"]) == (made["backend"], 1)
        await world.stop(broker)
        name, told = await anext(stream)
        assert (name, told["code"]) == ("closing", 1001)
        assert [event async for event in stream] == []


async def test_a_closed_event_stream_is_forgotten(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "alice")
    async with http.stream("GET", "/v1/events") as response:
        await anext(events(response))
        assert len(broker.driver.connections) == 1
    await until(lambda: not broker.driver.connections)


async def test_ends_and_moves_are_events_too(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    http = await world.http(one, "alice")
    first = (await http.post("/v1/subscriptions", json=NEW)).json()
    fire = {"channel": "floods", "arguments": {"type": "fire"}}
    second = (await http.post("/v1/subscriptions", json=fire)).json()
    async with http.stream("GET", "/v1/events") as response:
        stream = events(response)
        await anext(stream)
        world.cluster.end(first["subscription"])
        number = first["subscription"]
        assert await anext(stream) == ("ended", {"op": "ended", "subscription": number})
        world.cluster.move(second["subscription"], two.name)
        assert await anext(stream) == ("moved", {"op": "moved", "broker": "two"})
        name, told = await anext(stream)
        assert (name, told["code"]) == ("closing", 4001)


async def unread_stream(broker: Broker, subject: str) -> socket.socket:
    """The connection of an event stream whose client has read the welcome, and reads no more."""
    reader = await asyncio.to_thread(small_socket, broker.url)
    head = f"GET /v1/events?inline=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token(subject)}"
    reader.sendall(head.encode() + b"\r\n\r\n")
    reader.settimeout(PATIENCE_S)
    heard = b""
    while b"event: welcome" not in heard:
        heard += await asyncio.to_thread(reader.recv, 4096)
    return reader


def peers() -> set[Any]:
    """Who is connected to this process, by the sockets that it has open."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(file).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(file.name))) as copy:
                    found.add(copy.getpeername())
    return found


async def test_a_stalled_client_is_cut_while_others_go_on(world: World) -> None:
    broker = await world.broker(stall_s=3.0, connection_bytes=BUDGET_BYTES)
    alice = await world.http(broker, "alice")
    big = {"channel": "floods", "arguments": {"type": "big"}}
    await alice.post("/v1/subscriptions", json=big)
    reader = await unread_stream(broker, "alice")
    assert reader.getsockname() in peers()
    (line,) = broker.rest.streams
    assert isinstance(line, EventLine)
    bob = await world.socket(broker, "bob")
    made = await bob.subscribe(**FLOOD)
    async with asyncio.timeout(PATIENCE_S):
        while not broker.driver.counts.stalled:
            world.cluster.produce("floods", {"type": "big"}, [{"text": "x" * 8000}])
            world.cluster.produce("floods", FLOOD, [{"n": 1}])
            async with asyncio.timeout(2.5):  # less than what the stalled one is given
                assert (await bob.until("signal"))["backend"] == made["backend"]
            assert line.unsent_bytes <= BUDGET_BYTES
    await until(lambda: reader.getsockname() not in peers())
    assert not broker.rest.streams
    assert len(broker.driver.connections) == 1  # bob's
    reader.close()


async def test_a_client_that_reads_slowly_is_not_taken_for_stalled() -> None:
    identity = Identity("alice", frozenset(["subscribe"]), time.time() + 600)
    line = EventLine(identity, "", inline=True, most_bytes=1 << 20)
    line.send(Message("results", b"x" * 600_000))
    line.close(1001, "the end")
    stalled: list[bool] = []
    taken_bytes = 0

    async def slowly(message: Any) -> None:
        nonlocal taken_bytes
        taken_bytes += len(message.get("body", b""))
        await asyncio.sleep(len(message.get("body", b"")) / 1_000_000)

    async def nothing() -> Any:
        await asyncio.Event().wait()

    await EventResponse(line, 0.4, stalled.append)({"type": "http"}, nothing, slowly)
    assert stalled == [False]
    assert taken_bytes > 600_000
