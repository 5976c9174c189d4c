"""Many subscribers, each with a connection of their own, that count what they are shown."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from bench.control import answer, orders
from tocsin.client import Subscription
from tocsin.client.connection import Address, Connection, Listener
from tocsin.protocol.client import Welcome

PREFETCH = 256
AT_ONCE = 50


class _Count:
    def __init__(self) -> None:
        self.left = 0
        self.bytes = 0
        self.done = asyncio.Event()

    def came(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.done.set()


class _Counted(Connection):
    def __init__(self, url: str, token: str, count: _Count) -> None:
        self.count = count
        self.listeners: list[Listener] = []

        async def locate(_: str | None) -> Address:
            return Address("broker_1", url)

        super().__init__(locate, token, inline=True, most_s=5.0)

    def _open_again(self, welcome: Welcome) -> None:
        for info in welcome.subscriptions:
            listener = Listener(info.channel, info.arguments, PREFETCH)
            self._listen(listener, info)
            self.listeners.append(listener)
        super()._open_again(welcome)

    def _receive(self, message: bytes) -> None:
        self.count.bytes += len(message)
        super()._receive(message)


async def _take(subscription: Subscription, count: _Count) -> None:
    async for _ in subscription:
        count.came()


async def main(url: str) -> None:
    count, gate = _Count(), asyncio.Semaphore(AT_ONCE)
    connections: list[_Counted] = []
    tasks: list[asyncio.Task[None]] = []

    async def connect(token: str) -> None:
        async with gate:
            connection = _Counted(url, token, count)
            await connection.open(60.0)
            connections.append(connection)
            for listener in connection.listeners:
                subscription = Subscription(connection, listener, "auto")
                tasks.append(asyncio.create_task(_take(subscription, count)))

    async for order in orders():
        if "tokens" in order:
            await asyncio.gather(*map(connect, order["tokens"]))
            answer(subscriptions=len(tasks))
        else:
            count.done.clear()
            before, count.left = count.bytes, count.left + order["expect"]
            await count.done.wait()
            answer(bytes=count.bytes - before)
    for task in tasks:
        task.cancel()
    for connection in connections:
        await connection.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
