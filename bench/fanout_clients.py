"""Clients that count what they receive: as cheap as possible, and the same for every server."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench.control import answer, orders


class _Count:
    """Messages that are still expected."""

    def __init__(self) -> None:
        self.left = 0

    def change(self, by: int) -> None:
        """Messages may outrun the word that they are expected: then `left` is negative."""
        self.left += by
        if self.left == 0:
            answer(done=True)


class _Client(WSListener):
    def __init__(self, count: _Count) -> None:
        self._count = count

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._count.change(-1)


async def main(url: str, clients: int) -> None:
    count = _Count()
    gate = asyncio.Semaphore(50)

    async def connect() -> WSTransport:
        async with gate:
            transport, _ = await ws_connect(lambda: _Client(count), url)
            return transport

    transports = await asyncio.gather(*(connect() for _ in range(clients)))
    answer(ready=len(transports))
    async for order in orders():
        count.change(order["expect"])
    for transport in transports:
        transport.disconnect()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
