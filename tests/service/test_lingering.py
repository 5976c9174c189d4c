"""Whoever sends a body that is refused before it has come reads why, and then the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tocsin.errors import TooLarge
from tocsin.service import lingering
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.web import Call, Route, application, error_response

SECRET = "a secret that is long enough to sign with"
LARGE_BYTES = 16 * 1024 * 1024  # more than the buffers of two sockets hold


def closing(reason: str) -> Any:
    refused = error_response(TooLarge(reason))
    refused.headers["connection"] = "close"
    return refused


async def refuse(_: Call) -> Any:
    return closing("unread")


async def read_and_refuse(call: Call) -> Any:
    await call.bytes()
    return closing("read")


ROUTES = [
    Route("POST", "/refuse", refuse, None, "refuse before anything is read"),
    Route("POST", "/read", read_and_refuse, None, "refuse what was read"),
]


@asynccontextmanager
async def upload(
    path: str, announced_bytes: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A call whose head has been sent."""
    listener = listen("127.0.0.1", 0)
    app = application(
        "test", ROUTES, verifier=TokenVerifier(secret=SECRET), limit_bytes=LARGE_BYTES
    )
    async with serving(app, listener):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
        head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {announced_bytes}\r\n\r\n"
        writer.write(head.encode())
        try:
            yield reader, writer
        finally:
            writer.close()


async def send(writer: asyncio.StreamWriter, pieces: int) -> None:
    for _ in range(pieces):
        writer.write(bytes(LARGE_BYTES // 16))
        await writer.drain()
        await asyncio.sleep(0.002)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """All of it, up to the connection's end."""
    return await asyncio.wait_for(reader.read(), 8)


async def test_whoever_sends_all_before_reading_gets_the_answer() -> None:
    async with upload("/refuse", LARGE_BYTES) as (reader, writer):
        await send(writer, pieces=16)
        text = await answer(reader)
        assert text.startswith(b"HTTP/1.1 413")
        assert b"unread" in text


async def test_the_answer_comes_before_the_rest_is_sent() -> None:
    async with upload("/refuse", LARGE_BYTES) as (reader, writer):
        writer.write(bytes(1000))
        assert (await asyncio.wait_for(reader.readline(), 2)).startswith(b"HTTP/1.1 413")


async def test_whoever_sends_nothing_more_is_cut_off_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.3)
    async with upload("/refuse", LARGE_BYTES) as (reader, writer):
        writer.write(bytes(1000))
        begun = time.monotonic()
        assert b"unread" in await answer(reader)
        assert time.monotonic() - begun >= 0.25


async def test_whoever_sends_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_BYTES", 1024 * 1024)
    async with upload("/refuse", 1 << 40) as (_, writer):
        with pytest.raises(ConnectionError):
            await send(writer, pieces=1000)


async def test_the_connection_of_a_body_that_was_read_is_closed_at_once() -> None:
    async with upload("/read", 1000) as (reader, writer):
        writer.write(bytes(1000))
        begun = time.monotonic()
        assert b"read" in await answer(reader)
        assert time.monotonic() - begun < lingering.LINGER_S / 4
