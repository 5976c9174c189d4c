"""A request that does not come, or an answer that is not read, keeps no connection."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.responses import Response

from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.http_protocol import HEAD_BYTES, MOST_HEADERS, MOST_PIPELINED
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import mint
from tocsin.service.web import MODEST_BYTES, Call, Route, application

SECRET = "a secret that is long enough to sign with"
LARGE_BYTES = 32 * 1024 * 1024


async def read(call: Call) -> Any:
    return {"size": len(await call.bytes())}


async def large(_: Call) -> Response:
    return Response(bytes(LARGE_BYTES))


ROUTES = [
    Route("POST", "/small", read, None, "read a little"),
    Route("POST", "/known", read, (), "read a little of whoever has a token"),
    Route("POST", "/large", read, None, "read much", limit_bytes=None),
    Route("GET", "/large", large, None, "answer much"),
]


class Peer:
    """Writes requests by hand."""

    def __init__(self, connections: Connections, port: int) -> None:
        self.connections = connections
        self.port = port

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def answer(self, *sent: bytes) -> bytes:
        """To all that was sent, up to the connection's end."""
        reader, writer = await self.opened()
        try:
            for piece in sent:
                writer.write(piece)
            return await asyncio.wait_for(reader.read(), 8)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def served(**given: float) -> AsyncIterator[Peer]:
    values: dict[str, Any] = {"connections": 100, "strangers": 100, "head_s": 0.2, "sweep_s": 0.02}
    connections = Connections(ConnectionLimits(**(values | {"unread_s": 0.2} | given)))
    listener = listen("127.0.0.1", 0, connections=connections)
    app = application(
        "test", ROUTES, verifier=TokenVerifier(secret=SECRET), limit_bytes=LARGE_BYTES
    )
    async with serving(app, listener):
        yield Peer(connections, port_of(listener))


def post(path: str, length: int, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: a", f"content-length: {length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: a\r\n"])
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    async with served() as peer:
        assert await peer.answer(sent) == b""


async def test_a_head_that_trickles_on_a_kept_connection_ends_it() -> None:
    async with served() as peer:
        reader, writer = await peer.opened()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        while not reader.at_eof():
            assert time.monotonic() - began < 5
            writer.write(b"G" if time.monotonic() == began else b"E")
            await asyncio.sleep(0.05)
            reader._buffer.clear()  # type: ignore[attr-defined]
        writer.close()


async def test_a_head_that_is_too_large_or_of_too_many_headers_is_refused() -> None:
    async with served(head_s=30.0) as peer:
        begin = b"GET /healthz HTTP/1.1\r\n"
        assert (await peer.answer(begin, b"a: " + b"x" * 2 * HEAD_BYTES)).startswith(
            b"HTTP/1.1 400"
        )
        assert (await peer.answer(begin, b"a: b\r\n" * 2 * MOST_HEADERS)).startswith(
            b"HTTP/1.1 400"
        )
        trailers = b"0\r\n" + b"a: b\r\n" * 2 * MOST_HEADERS
        chunked = b"POST /small HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        assert (await peer.answer(chunked, trailers)).startswith(b"HTTP/1.1 400")


async def test_many_requests_at_once_are_refused() -> None:
    async with served() as peer:
        text = await peer.answer(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n" * 4 * MOST_PIPELINED)
        assert text.count(b"HTTP/1.1 200") <= 1


async def test_a_body_that_pauses_is_refused_with_408() -> None:
    async with served() as peer:
        text = await asyncio.wait_for(_half(peer, post("/small", 100) + b"x"), 5)
        assert text.startswith(b"HTTP/1.1 408")
        assert b"too_slow" in text


async def _half(peer: Peer, sent: bytes) -> bytes:
    """What is answered although more is to come."""
    reader, writer = await peer.opened()
    writer.write(sent)
    head = await reader.readuntil(b"}}")
    writer.close()
    return head


async def test_a_body_that_is_announced_too_large_is_refused_before_it_comes() -> None:
    async with served() as peer:
        text = await _half(peer, post("/small", MODEST_BYTES + 1))
        assert text.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in text
        whole = post("/large", MODEST_BYTES + 1, "connection: close") + bytes(MODEST_BYTES + 1)
        assert (await peer.answer(whole)).startswith(b"HTTP/1.1 200")


async def test_an_answer_that_is_not_read_is_dropped_in_the_end() -> None:
    async with served() as peer:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", peer.port))
        raw.sendall(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        async with asyncio.timeout(5):
            while not len(peer.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while len(peer.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        raw.close()


async def test_whoever_shows_a_token_is_a_stranger_no_more() -> None:
    async with served() as peer:
        token = mint(SECRET, "ann", ["publish"], expires_s=60, now=time.time())
        for wanted, authorization in ((1, "Bearer no"), (0, f"Bearer {token}")):
            reader, writer = await peer.opened()
            writer.write(post("/known", 1, f"authorization: {authorization}") + b"x")
            await reader.readline()
            assert peer.connections.strangers == wanted
            writer.close()
            async with asyncio.timeout(5):
                while len(peer.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
