"""A peer that is not there is told as one; a mistake of our own is not taken for that."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import uvloop
from anyio._backends._asyncio import SocketStream

from tocsin.client.http import Http
from tocsin.client.transport import HttpClient, Transport
from tocsin.protocol.health import Done

AT_ONCE, ROUNDS = 50, 40


@pytest.fixture
def hangs_up() -> Iterator[str]:
    """A service that resets every connection as soon as it has it."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_peer_that_hangs_up_while_it_is_connected_to_is_an_absent_one(hangs_up: str) -> None:
    """httpx by itself lets an AttributeError of anyio through, now and then."""

    async def call(client: httpx.AsyncClient) -> Exception:
        with pytest.raises(Exception) as failure:
            await client.get(hangs_up)
        return failure.value

    async def call_often() -> list[Exception]:
        async with HttpClient(timeout=5.0) as client:
            return [
                failure
                for _ in range(ROUNDS)
                for failure in await asyncio.gather(*(call(client) for _ in range(AT_ONCE)))
            ]

    failures = uvloop.run(call_often())
    assert {type(failure) for failure in failures} <= {httpx.ConnectError, httpx.ReadError}


async def test_a_connection_that_has_lost_its_socket_is_an_absent_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same race, decided: this is how uvloop's closed transports look to anyio."""
    monkeypatch.setattr(SocketStream, "_raw_socket", None)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, HttpClient(timeout=5.0) as client:
        with pytest.raises(httpx.ConnectError, match="hung up") as failure:
            await client.get(url)
    assert isinstance(failure.value.__cause__, AttributeError)


async def _broken_body(error: Exception) -> AsyncIterator[bytes]:
    yield b"a"
    raise error


@pytest.mark.parametrize(
    "error", [AttributeError("planted"), TypeError("planted"), OSError("planted")]
)
async def test_a_mistake_of_our_own_is_raised_as_it_is(error: Exception) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    service = Http(url, "token")
    async with server, HttpClient(timeout=5.0) as client:
        with pytest.raises(type(error), match="planted"):
            await client.post(url, content=_broken_body(error))
        with pytest.raises(type(error), match="planted"):
            await service.call(
                "POST", "/", Done, repeatable=True, attempts=2, content=lambda: _broken_body(error)
            )
        await service.close()


async def test_the_bare_transport_tells_an_absent_peer_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(httpx.HTTPError):
        await Transport().handle_async_request(httpx.Request("GET", f"http://127.0.0.1:{port}"))
