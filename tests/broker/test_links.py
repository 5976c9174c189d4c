"""Links between brokers: who may link, which incarnation counts, and peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from broker.link_network import HASTY, Node
from broker.world import token, until
from tocsin.broker.server.link import SILENT_BEATS
from tocsin.overlay.routing import Publication, ResultsWanted
from tocsin.service.keys.credentials import credential_of
from tocsin.settings import Settings

NEVER_S = 1000.0
WORD = Publication("world", 1, {"kind": "a"})

Make = Callable[..., Awaitable[Node]]


@pytest.fixture
async def node() -> AsyncIterator[Make]:
    made: list[Node] = []

    async def make(name: str, send_buffer_bytes: int | None = None, **options: Any) -> Node:
        one = Node(name, **options)
        made.append(one)
        await one.start(send_buffer_bytes)
        return one

    yield make
    for one in made:
        await one.stop()


def beside(*nodes: Node) -> None:
    for one in nodes:
        one.links.set_neighbours({each.name: each.ws_url for each in nodes if each is not one})


def link_url(node: Node, name: str = "a", incarnation: object = 1) -> str:
    base = node.ws_url.removesuffix("/v1/ws")
    return f"{base}/v1/link?broker={name}&incarnation={incarnation}"


def dial(url: str, bearer: str | None = None, **options: Any) -> connect:
    given = bearer if bearer is not None else token("a", "broker")
    headers = {"authorization": f"Bearer {given}"}
    return connect(url, additional_headers=headers, compression=None, **options)


async def closed_with(wire: ClientConnection) -> int:
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await wire.recv()
    assert wire.close_code is not None
    return wire.close_code


def linked(node: Node) -> list[tuple[str, int]]:
    return [(name, incarnation) for what, name, incarnation, *_ in node.told if what == "linked"]


def heard(node: Node) -> list[tuple[int, Any]]:
    return [(each[3], each[4]) for each in node.told if each[0] == "heard"]


# Two that are well


async def test_both_ends_hear_of_the_same_incarnation_and_of_each_others_messages(
    node: Make,
) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    await until(lambda: linked(a) and linked(b))
    ((to_b, incarnation),), ((to_a, same),) = linked(a), linked(b)
    assert (to_b, to_a, incarnation) == ("b", "a", same)
    for sequence in range(1, 101):
        a.links.send("b", incarnation, sequence, WORD)
        b.links.send("a", incarnation, sequence, WORD)
    await until(lambda: len(heard(a)) == len(heard(b)) == 100)
    assert heard(a) == heard(b) == [(sequence, WORD) for sequence in range(1, 101)]
    assert (a.links.counts.messages_out, b.links.counts.messages_in) == (100, 100)
    assert a.links.counts.bytes_out > b.links.counts.bytes_in > 0


async def test_messages_of_one_turn_leave_in_one_write(node: Make) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    for one, other in ((a, b), (b, a)):
        link = one.link(other.name)
        writes: list[bytes] = []

        class Transport:
            def write(self, data: bytes, to: list[bytes] = writes) -> None:
                to.append(data)

            def get_write_buffer_size(self) -> int:
                return 0

        class Fake:
            underlying_transport = Transport()

        real, link.transport = link.transport, Fake()  # type: ignore[assignment]
        for sequence in range(1, 51):
            one.links.send(other.name, link.incarnation, sequence, WORD)
        await asyncio.sleep(0)
        link.transport = real
        assert len(writes) == 1


async def test_a_message_larger_than_a_frame_may_be_arrives_whole_both_ways(node: Make) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    await until(lambda: linked(a) and linked(b))
    large = Publication("world", 1, {"text": "ä" * 300_000})
    ((_, incarnation),) = linked(a)
    a.links.send("b", incarnation, 1, large)
    b.links.send("a", incarnation, 1, large)
    a.links.send("b", incarnation, 2, WORD)
    await until(lambda: len(heard(b)) == 2 and len(heard(a)) == 1)
    assert heard(b) == [(1, large), (2, WORD)]
    assert heard(a) == [(1, large)]


async def test_what_is_sent_over_another_incarnation_does_not_travel(node: Make) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    await until(lambda: linked(a) and linked(b))
    ((_, incarnation),) = linked(a)
    a.links.send("b", incarnation - 1, 1, WORD)
    a.links.send("c", incarnation, 1, WORD)
    a.links.close("b", incarnation - 1)
    a.links.send("b", incarnation, 2, WORD)
    await until(lambda: heard(b))
    assert heard(b) == [(2, WORD)]
    assert a.is_linked("b")


async def test_a_link_that_is_given_up_comes_again_with_a_higher_incarnation(node: Make) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    for times in (1, 2, 3):
        await until(lambda times=times: len(linked(a)) == len(linked(b)) == times)  # type: ignore[misc]
        assert linked(a)[-1][1] == linked(b)[-1][1]
        told = len(a.told)
        giving_up, other = (a, "b") if times % 2 else (b, "a")
        giving_up.links.close(other, linked(a)[-1][1])
        assert len(a.told) == told, "told while the caller is still at it"
    numbers = [number for _, number in linked(a)]
    assert numbers == sorted(set(numbers))
    await until(lambda: a.links.counts.relinks == b.links.counts.relinks == 3)


@pytest.mark.parametrize("forgets", ["a", "b"])
async def test_who_is_no_longer_a_neighbour_is_cut_off_and_not_linked_again(
    node: Make, forgets: str
) -> None:
    a, b = await node("a"), await node("b")
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    (a if forgets == "a" else b).links.set_neighbours({})
    await until(lambda: not a.is_linked("b") and not b.is_linked("a"))
    await asyncio.sleep(0.2)
    assert len(linked(a)) == len(linked(b)) == 1
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))


async def test_a_neighbour_that_is_not_there_yet_is_dialled_until_it_is(node: Make) -> None:
    a, b = await node("a"), await node("b")
    nowhere = socket.create_server(("127.0.0.1", 0))
    a.links.set_neighbours({"b": f"ws://127.0.0.1:{nowhere.getsockname()[1]}/v1/ws"})
    nowhere.close()
    b.links.set_neighbours({"a": a.ws_url})
    await asyncio.sleep(0.1)
    assert not a.is_linked("b")
    a.links.set_neighbours({"b": b.ws_url})
    await until(lambda: a.is_linked("b") and b.is_linked("a"))


async def test_stopping_ends_all_links_and_is_told(node: Make) -> None:
    a, b, c = await node("a"), await node("b"), await node("c")
    beside(a, b, c)
    await until(lambda: all(each.links.up == 2 for each in (a, b, c)))
    await b.links.stop()
    assert b.links.up == 0
    assert [what for what, *_ in b.told].count("unlinked") == 2
    await until(lambda: a.links.up == c.links.up == 1)


# Incarnations


async def test_incarnations_grow_though_the_clock_goes_back(node: Make) -> None:
    hour = [100.0]
    a, b = await node("a", clock=lambda: hour[0]), await node("b")
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    hour[0] = 50.0
    b.links.close("a", linked(b)[-1][1])
    await until(lambda: len(linked(a)) == len(linked(b)) == 2)
    assert linked(a) == [("b", 100_000_000), ("b", 100_000_001)]
    assert [number for _, number in linked(b)] == [number for _, number in linked(a)]


async def test_a_broker_that_restarts_with_its_clock_back_learns_the_newest_and_is_linked(
    node: Make,
) -> None:
    b = await node("b")
    before = await node("a", clock=lambda: 100.0)
    beside(before, b)
    await until(lambda: before.is_linked("b") and b.is_linked("a"))
    await before.stop()
    again = await node("a", clock=lambda: 50.0)
    beside(again, b)
    await until(lambda: again.is_linked("b") and b.is_linked("a"))
    assert linked(again)[-1][1] == linked(b)[-1][1] == 100_000_001


async def test_of_two_sockets_the_newer_counts_and_the_older_is_told_to_be_gone_first(
    node: Make,
) -> None:
    b = await node("b")
    b.links.set_neighbours({"a": "ws://nowhere"})
    async with dial(link_url(b, incarnation=5)) as old, dial(link_url(b, incarnation=7)) as new:
        await until(lambda: len(b.told) == 3)
        assert b.told == [("linked", "a", 5), ("unlinked", "a", 5), ("linked", "a", 7)]
        with contextlib.suppress(ConnectionClosed):
            await old.send(msgspec.json.encode([1, WORD]), text=True)
        assert await closed_with(old) == 1001
        await new.send(msgspec.json.encode([1, WORD]), text=True)
        await until(lambda: len(b.told) == 4)
        assert b.told[-1] == ("heard", "a", 7, 1, WORD)


@pytest.mark.parametrize("late", [5, 4])
async def test_an_incarnation_that_is_not_newer_is_refused_and_told_the_newest(
    node: Make, late: int
) -> None:
    b = await node("b")
    b.links.set_neighbours({"a": "ws://nowhere"})
    async with dial(link_url(b, incarnation=5)) as wire:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(link_url(b, incarnation=late)):
                pass
        assert refused.value.response.status_code == 409
        assert refused.value.response.headers["Tocsin-Incarnation"] == "5"
        await wire.ping()
        assert b.told == [("linked", "a", 5)]


# Who may not


@pytest.mark.parametrize(
    ("url", "bearer", "status", "field"),
    [
        ({}, "", 401, None),
        ({}, "nonsense", 401, None),
        ({}, ("a", "subscribe"), 403, "scope"),
        ({}, ("z", "broker"), 403, "broker"),
        ({"name": "stranger"}, ("stranger", "broker"), 400, "broker"),
        ({"name": "aa"}, ("aa", "broker"), 404, "broker"),
        ({"name": ""}, None, 403, "broker"),
        ({"name": "b"}, ("b", "broker"), 400, "broker"),
        ({"incarnation": ""}, None, 400, "incarnation"),
        ({"incarnation": "soon"}, None, 400, "incarnation"),
        ({"incarnation": "-1"}, None, 400, "incarnation"),
        ({"incarnation": "0"}, None, 400, "incarnation"),
        ({"incarnation": "1.5"}, None, 400, "incarnation"),
        ({"incarnation": "9" * 5000}, None, 400, "incarnation"),
        ({"incarnation": 2**63}, None, 400, "incarnation"),
    ],
)
async def test_who_may_not_link_is_told_why(
    node: Make,
    url: dict[str, Any],
    bearer: str | tuple[str, str] | None,
    status: int,
    field: str | None,
) -> None:
    b = await node("b")
    b.links.set_neighbours({"a": "ws://nowhere"})
    if isinstance(bearer, tuple):
        bearer = token(*bearer)
    with pytest.raises(InvalidStatus) as refused:
        async with dial(link_url(b, **url), bearer):
            pass
    assert refused.value.response.status_code == status
    error = msgspec.json.decode(refused.value.response.body)["error"]
    assert error.get("field") == field
    assert b.told == []


async def test_a_secret_of_its_own_keeps_a_broker_out(node: Make) -> None:
    a, b = await node("a"), await node("b")
    known = a.links._credential
    other = Settings(secret="another secret of some length, for the tests", broker_name="a")
    a.links._credential = credential_of(other)
    beside(a, b)
    await asyncio.sleep(0.2)
    assert (linked(a), linked(b)) == ([], [])
    a.links._credential = known
    await until(lambda: a.is_linked("b") and b.is_linked("a"))


# Peers that misbehave


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "[]",
        "[1]",
        '{"op":"ping"}',
        '[0,{"type":"assured","dataset":"d","position":1,"number":1}]',
        '["1",{"type":"assured","dataset":"d","position":1,"number":1}]',
        '[1,{"type":"assured","dataset":"d","position":"x","number":1}]',
        '[1,{"type":"unheard of"}]',
        b"[1,2]",
    ],
)
async def test_garbage_closes_the_link_and_nothing_else(node: Make, garbage: str | bytes) -> None:
    b, c = await node("b"), await node("c")
    b.links.set_neighbours({"a": "ws://nowhere", "c": c.ws_url})
    c.links.set_neighbours({"b": b.ws_url})
    await until(lambda: b.is_linked("c") and c.is_linked("b"))
    async with dial(link_url(b)) as wire:
        await until(lambda: b.is_linked("a"))
        await wire.send(garbage)
        await wire.send(msgspec.json.encode([1, WORD]), text=True)
        assert await closed_with(wire) == 4400
    await until(lambda: not b.is_linked("a"))
    assert heard(b) == []
    assert b.is_linked("c")
    assert c.is_linked("b")


async def test_text_that_is_not_unicode_closes_the_link(node: Make) -> None:
    b = await node("b")
    b.links.set_neighbours({"a": "ws://nowhere"})
    async with dial(link_url(b)) as wire:
        await until(lambda: b.is_linked("a"))
        frame = b'[1,{"type":"publication","dataset":"\xff","position":1,"record":{}}]'
        await wire.send(frame, text=True)
        assert await closed_with(wire) == 4400


async def test_parts_that_never_end_are_not_gathered_for_ever(node: Make) -> None:
    b = await node("b", limits=replace(HASTY, unsent_bytes=100_000))
    b.links.set_neighbours({"a": "ws://nowhere"})

    def endless() -> Any:
        for _ in range(100):
            yield "[" * 10_000

    async with dial(link_url(b)) as wire:
        await until(lambda: b.is_linked("a"))
        with contextlib.suppress(ConnectionClosed):
            await wire.send(endless())
        assert await closed_with(wire) == 1009
    await until(lambda: not b.is_linked("a"))


async def test_a_fault_of_ours_costs_the_link_alone(node: Make) -> None:
    a, b = await node("a"), await node("b")

    def fail(*_: object) -> None:
        raise RuntimeError("for the test")

    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    b.heard = fail  # type: ignore[assignment,method-assign]
    a.links.send("b", linked(a)[-1][1], 1, WORD)
    await until(lambda: len(linked(a)) == len(linked(b)) == 2)


async def test_a_question_that_cannot_be_handled_costs_no_link(node: Make) -> None:
    a, b = await node("a"), await node("b")
    hear = b.heard

    def fail(name: str, incarnation: int, sequence: int, message: Any) -> None:
        if message == question:
            raise RuntimeError("for the test")
        hear(name, incarnation, sequence, message)

    question = ResultsWanted(1, 2, "e", 3, 4)
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    b.heard = fail  # type: ignore[assignment,method-assign]
    incarnation = linked(a)[-1][1]
    a.links.send("b", incarnation, 1, question)
    a.links.send("b", incarnation, 2, WORD)
    await until(lambda: heard(b) == [(2, WORD)])
    assert len(linked(a)) == len(linked(b)) == 1


class RawPeer:
    """Speaks just enough to be linked, and from then on only when told."""

    def __init__(self, node: Node) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)
        self._node = node

    async def open(self, incarnation: int = 1) -> None:
        loop = asyncio.get_running_loop()
        port = int(self._node.ws_url.split(":")[2].split("/")[0])
        await loop.sock_connect(self.socket, ("127.0.0.1", port))
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        request = (
            f"GET /v1/link?broker=a&incarnation={incarnation} HTTP/1.1\r\nHost: b\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {token('a', 'broker')}\r\n\r\n"
        )
        await loop.sock_sendall(self.socket, request.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await loop.sock_recv(self.socket, 1)
        assert b" 101 " in answer

    async def say_something(self) -> None:
        frame = Frame(Opcode.PONG, os.urandom(4)).serialize(mask=True)
        await asyncio.get_running_loop().sock_sendall(self.socket, frame)

    async def read(self, size_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        while size_bytes > 0:
            got = await loop.sock_recv(self.socket, min(size_bytes, 4096))
            assert got, "cut off"
            size_bytes -= len(got)


@pytest.fixture
async def peer(node: Make) -> AsyncIterator[tuple[Node, RawPeer]]:
    b = await node("b", 4096, limits=replace(HASTY, unsent_bytes=200_000, beat_s=NEVER_S))
    b.links.set_neighbours({"a": "ws://nowhere"})
    raw = RawPeer(b)
    await raw.open()
    await until(lambda: b.is_linked("a"))
    yield b, raw
    raw.socket.close()


async def test_a_peer_that_is_silent_is_cut_off_after_some_beats(
    peer: tuple[Node, RawPeer],
) -> None:
    b, raw = peer
    for _ in range(3):  # it was heard meanwhile
        b.link("a").beat()
        await raw.say_something()
        await until(lambda: b.link("a")._heard)
    for _ in range(SILENT_BEATS):
        b.link("a").beat()
        await asyncio.sleep(0)
        assert b.is_linked("a")
    b.link("a").beat()
    await until(lambda: not b.is_linked("a"))


async def test_what_the_network_takes_from_us_is_no_sign_of_life(
    peer: tuple[Node, RawPeer],
) -> None:
    b, _ = peer
    for sequence in range(1, SILENT_BEATS + 2):
        b.links.send("a", 1, sequence, WORD)
        await asyncio.sleep(0)
        b.link("a").beat()
    await until(lambda: not b.is_linked("a"))


async def test_beats_come_of_themselves(node: Make) -> None:
    b = await node("b", limits=replace(HASTY, beat_s=0.02))
    b.links.set_neighbours({"a": "ws://nowhere"})
    raw = RawPeer(b)
    await raw.open()
    await until(lambda: linked(b) and not b.is_linked("a"))
    raw.socket.close()


async def test_two_that_are_well_stay_linked_though_they_have_nothing_to_say(node: Make) -> None:
    silent = replace(HASTY, beat_s=NEVER_S)
    a, b = await node("a", limits=silent), await node("b", limits=silent)
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    for _ in range(3 * SILENT_BEATS):
        for one, other in ((a, "b"), (b, "a")):
            link = one.link(other)
            link.beat()
            await until(lambda link=link: link._heard)  # type: ignore[misc]
    assert len(linked(a)) == len(linked(b)) == 1


async def test_a_peer_that_does_not_read_costs_bounded_bytes_though_it_talks(
    peer: tuple[Node, RawPeer],
) -> None:
    b, raw = peer
    word = Publication("world", 1, {"text": "x" * 10_000})
    for sequence in range(1, 1000):
        if not b.is_linked("a"):
            break
        link = b.link("a")
        b.links.send("a", 1, sequence, word)
        await asyncio.sleep(0)
        assert link._unsent_bytes + link._out_bytes < 200_000 + 11_000
        with contextlib.suppress(OSError):
            await raw.say_something()
            await until(lambda link=link: link._heard or link._cut)  # type: ignore[misc]
        link.beat()
    assert not b.is_linked("a")
    assert 15 < sequence < 200


async def test_a_burst_in_one_turn_is_bounded_too(peer: tuple[Node, RawPeer]) -> None:
    b, _ = peer
    word = Publication("world", 1, {"text": "x" * 10_000})
    link = b.link("a")
    for sequence in range(1, 1000):
        b.links.send("a", 1, sequence, word)
        assert link._out_bytes < 200_000 + 11_000
    await until(lambda: not b.is_linked("a"))


async def test_a_peer_that_reads_slowly_is_waited_for(peer: tuple[Node, RawPeer]) -> None:
    b, raw = peer
    link = b.link("a")
    b.links.send("a", 1, 1, Publication("world", 1, {"text": "x" * 1_000_000}))
    await until(lambda: link._unsent_bytes)
    link.beat()
    for _ in range(3 * SILENT_BEATS):
        before = link._unsent_bytes
        while link._unsent_bytes >= before:
            await raw.read(4096)
            await asyncio.sleep(0)
        link.beat()
        assert b.is_linked("a")
    assert link._unsent_bytes > 0, "it has yet to read the rest"
    for _ in range(SILENT_BEATS):
        link.beat()
    await until(lambda: not b.is_linked("a"))


async def test_a_message_above_the_limit_passes_when_nothing_waits(node: Make) -> None:
    a, b = await node("a", limits=replace(HASTY, unsent_bytes=10_000)), await node("b")
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    large = Publication("world", 1, {"text": "x" * 100_000})
    a.links.send("b", linked(a)[-1][1], 1, large)
    await until(lambda: heard(b))
    assert heard(b) == [(1, large)]


async def test_a_dead_peer_is_replaced_by_its_next_life(peer: tuple[Node, RawPeer]) -> None:
    b, _ = peer
    again = RawPeer(b)
    await again.open(incarnation=int(time.time() * 1e6))
    await until(lambda: len(linked(b)) == 2)
    assert [what for what, *_ in b.told] == ["linked", "unlinked", "linked"]
    again.socket.close()
    await until(lambda: not b.is_linked("a"))


async def test_brokers_of_different_stores_are_not_linked(node: Make) -> None:
    """What they route cannot be told apart: positions of two logs are compared with each other."""
    stores = {"a": "one", "b": "one"}
    a, b = (
        await node("a", store_id=lambda: stores["a"]),
        await node("b", store_id=lambda: stores["b"]),
    )
    beside(a, b)
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
    stores["b"] = "two"
    b.links.close("a", b.link("a").incarnation)
    await until(lambda: not a.is_linked("b") and not b.is_linked("a"))
    await asyncio.sleep(0.2)
    assert len(linked(a)) == len(linked(b)) == 1
    stores["a"] = "two"
    await until(lambda: a.is_linked("b") and b.is_linked("a"))
