"""A client with many subscriptions, a task for each, that counts what it is shown."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import tracemalloc

from bench.control import answer, orders
from tocsin.client import Subscription
from tocsin.client.connection import Address, Connection, Listener
from tocsin.protocol.client import Welcome

PREFETCH = 256


class _Count:
    """Results that are still expected."""

    def __init__(self) -> None:
        self.left = 0
        self.none_left = asyncio.Event()

    def change(self, by: int) -> None:
        self.left += by
        if self.left == 0:
            self.none_left.set()


class _Everything(Connection):
    """Takes up all that the broker lists when it says welcome."""

    def __init__(self, url: str, token: str, *, together: bool) -> None:
        self.listeners: list[Listener] = []

        async def locate(_: str | None) -> Address:
            return Address("broker_1", url)

        super().__init__(locate, token, inline=together, batch=together, most_s=5.0)

    def _open_again(self, welcome: Welcome) -> None:
        for info in welcome.subscriptions:
            listener = Listener(info.channel, info.arguments, PREFETCH)
            self._listen(listener, info)
            self.listeners.append(listener)
        super()._open_again(welcome)


async def _take(subscription: Subscription, count: _Count) -> None:
    async for result in subscription:
        subscription.ack(result)
        count.change(-1)


async def main(way: str, url: str, token: str, many: int) -> None:
    connection = _Everything(url, token, together=way == "together")
    tracemalloc.start()
    await connection.open(60.0)
    subscriptions = [Subscription(connection, each, "manual") for each in connection.listeners]
    assert len(subscriptions) == many
    gc.collect()
    size_bytes = tracemalloc.get_traced_memory()[0] / many
    tracemalloc.stop()
    count = _Count()
    tasks = [asyncio.create_task(_take(each, count)) for each in subscriptions]
    await asyncio.sleep(0)
    answer(bytes=round(size_bytes))
    async for order in orders():
        if "expect" in order:
            count.none_left.clear()
            count.change(order["expect"])
            await count.none_left.wait()
            while not connection._settled:  # noqa: ASYNC110 (it is asked from outside)
                await asyncio.sleep(0.05)
            answer(done=True)
        else:
            answer(cpu_s=time.process_time())
    for task in tasks:
        task.cancel()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
