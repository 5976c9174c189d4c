"""An application: one client with many subscriptions, that notes when each result reaches it.

    python -m bench.sustain.application '["COORDINATOR", "TOKEN"]'

Answers orders in lines of JSON: `count` those from a number on, `take` all into a file.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.control import answer, orders
from bench.sustain.arrivals import Arrivals
from tocsin.client import Client
from tocsin.client.client import Subscription
from tocsin.client.connection import Listener
from tocsin.protocol.client import Welcome

OPEN_S = 60.0
PREFETCH = 256  # the client's own default


async def held(client: Client) -> list[Subscription]:
    """Everything that the subscriber has, as the broker tells it in its welcome.

    An application would call `subscribe` for each; it is a request for each, and takes longer than
    all the rest of a run. Replace this by a call for many as soon as the client has one.
    """
    connection = client._connection
    subscriptions: list[Subscription] = []
    resume: Callable[[Welcome], None] = connection._open_again

    def take_all(welcome: Welcome) -> None:
        for info in welcome.subscriptions:
            if info.subscription not in connection._listeners:
                listener = Listener(info.channel, info.arguments, PREFETCH)
                connection._listeners[info.subscription] = listener
                subscriptions.append(Subscription(connection, listener, "auto"))
        resume(welcome)

    connection._open_again = take_all  # type: ignore[method-assign]
    await connection.open(OPEN_S)
    return subscriptions


async def note(subscription: Subscription, arrivals: Arrivals) -> None:
    async for result in subscription:
        arrivals.came(result.value["number"], result.value["due_us"])


async def follow_orders(arrivals: Arrivals) -> None:
    async for order in orders():
        if order["op"] == "count":
            answer(count=arrivals.count_from(order["first"]))
        else:
            arrivals.save(Path(order["file"]))
            answer(saved=True)


async def main(coordinator: str, token: str) -> None:
    arrivals = Arrivals()
    async with Client(coordinator, token=token) as client:
        subscriptions = await held(client)
        tasks = [asyncio.create_task(note(each, arrivals)) for each in subscriptions]
        answer(subscriptions=len(subscriptions))
        await _first_of(asyncio.create_task(follow_orders(arrivals)), tasks)


async def _first_of(leading: asyncio.Task[None], tasks: Iterable[asyncio.Task[None]]) -> None:
    """Until the benchmark has no more orders, or something fails."""
    everything = [leading, *tasks]
    done, waiting = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()


if __name__ == "__main__":
    asyncio.run(main(*json.loads(sys.argv[1])))  # the loop that most applications have
