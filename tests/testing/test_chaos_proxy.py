"""Lines of a chaos run: what passes, and what does not, in each of their modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tocsin.testing.chaos.proxy import Proxy

SOON_S = 0.2


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[Proxy, list[bytes]]]:
    """A line to a server that answers what it hears, in capitals; and what it has heard."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line)
            writer.write(line.upper())
        writer.write(b"BYE\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    try:
        yield proxy, heard
    finally:
        await proxy.close()
        server.close()


async def test_both_directions_pass_and_so_does_the_end() -> None:
    async with echo() as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"HELLO\n"
        writer.write_eof()
        assert await reader.read() == b"BYE\n"
        writer.close()


async def test_a_cut_ends_connections_and_lets_none_be_made() -> None:
    async with echo() as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello\n")
        assert await reader.readline()
        proxy.set("cut")
        assert await ended(reader)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ended(reader)
        writer.close()
        proxy.set("open")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"again\n")
        assert await reader.readline() == b"AGAIN\n"
        writer.close()


async def test_a_stall_holds_bytes_until_it_is_over() -> None:
    async with echo() as (proxy, heard):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.set("stalled")
        writer.write(b"hello\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), SOON_S)
        assert not heard
        proxy.set("open")
        assert await reader.readline() == b"HELLO\n"
        writer.close()


async def test_a_mute_line_carries_what_is_sent_and_no_answer() -> None:
    async with echo() as (proxy, heard):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        proxy.set("mute")
        writer.write(b"hello\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), SOON_S)
        assert heard == [b"hello\n"]
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True
