from __future__ import annotations

import asyncio

import pytest

from broker.world import World, token
from tocsin.client import SyncClient
from tocsin.errors import NotFound

FLOOD = {"type": "flood"}


async def test_the_sync_client_iterates_acknowledges_and_resumes(world: World) -> None:
    await world.broker()
    loop = asyncio.get_running_loop()

    def produce(*values: int) -> None:
        made = [{"n": n} for n in values]
        loop.call_soon_threadsafe(world.cluster.produce, "floods", FLOOD, made)

    def application() -> list[int]:
        seen = []
        with (
            SyncClient(world.coordinator_url, token=token("alice")) as tocsin,
            tocsin.subscribe("floods", type="flood") as floods,
        ):
            produce(1, 2, 3)
            for flood in floods:
                seen.append(flood.value["n"])
                if len(seen) == 3:
                    break
        return seen

    assert await asyncio.to_thread(application) == [1, 2, 3]
    assert world.cluster.marker("alice") == 3


async def test_the_sync_client_raises_typed_errors(world: World) -> None:
    await world.broker()

    def application() -> None:
        with SyncClient(world.coordinator_url, token=token("alice")) as tocsin:
            tocsin.subscribe("nobody_made_this")

    with pytest.raises(NotFound):
        await asyncio.to_thread(application)


async def test_the_sync_client_publishes_and_runs_statements(world: World) -> None:
    def application() -> tuple[int, str]:
        options = {"cluster": world.cluster.url, "token": token("p", "publish", "admin")}
        with SyncClient(**options) as tocsin:
            return tocsin.publish("reports", [{"a": 1}]).accepted, tocsin.sql("x")[0].message

    assert await asyncio.to_thread(application) == (1, "x")
