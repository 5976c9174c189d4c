"""A server that sends bursts of messages to all its clients: ours, or Tornado's."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import uvloop
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from bench.control import answer, orders
from tocsin.broker.server.message import Message
from tocsin.broker.server.sockets import Socket, Sockets
from tocsin.protocol import client as frames
from tocsin.protocol.client import PATH
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.serving import listen, port_of

Broadcast = Callable[[list[bytes]], None]
ROOM_BYTES = 64 * 1024 * 1024


class _Welcome:
    """Lets everybody in and answers nothing."""

    def opened(self, connection: Socket) -> None:
        connection.go_on()

    def received(self, connection: Socket, request: frames.SingleRequest) -> None:
        pass

    def gone(self, connection: Socket) -> None:
        pass


async def ours(secret: str) -> tuple[int, Broadcast]:
    listener = listen("127.0.0.1", 0)
    sockets = Sockets(
        _Welcome(),
        verifier=TokenVerifier(secret=secret),
        frame_limit_bytes=64 * 1024,
        connection_bytes=ROOM_BYTES,
        stall_s=60.0,
        stalled=lambda: None,
    )
    await sockets.start(listener)

    def broadcast(texts: list[bytes]) -> None:
        for text in texts:
            message = Message("results", text)
            for connection in sockets.connections:
                connection.send(message)

    return port_of(listener), broadcast


class _Client(WebSocketHandler):
    everybody: set[_Client] = set()  # noqa: RUF012 (shared on purpose)

    def open(self, *_: Any, **__: Any) -> None:
        self.everybody.add(self)

    def on_close(self) -> None:
        self.everybody.discard(self)


async def tornados(_: str) -> tuple[int, Broadcast]:
    [listener] = bind_sockets(0, "127.0.0.1", backlog=2048)
    server = HTTPServer(Application([(PATH, _Client)]))
    server.add_sockets([listener])

    def broadcast(texts: list[bytes]) -> None:
        for text in texts:
            for client in _Client.everybody:
                client.write_message(text)

    return int(listener.getsockname()[1]), broadcast


async def main(kind: str, secret: str) -> None:
    port, broadcast = await (ours if kind == "tocsin" else tornados)(secret)
    answer(url=f"ws://127.0.0.1:{port}{PATH}")
    async for order in orders():
        if order["op"] == "cpu":
            answer(cpu_s=time.process_time())
        else:
            # JSON text, as a broker's results are; the number keeps the messages distinct.
            filling = b"x" * (order["size_bytes"] - 24)
            broadcast([b'{"n":%06d,"text":"%s"}' % (n, filling) for n in range(order["count"])])


if __name__ == "__main__":
    chosen = sys.argv[1]
    (asyncio.run if chosen == "tornado" else uvloop.run)(main(chosen, sys.argv[2]))
