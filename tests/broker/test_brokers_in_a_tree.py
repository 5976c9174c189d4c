"""Brokers learn from the coordinator's answers whom to be linked with, and are."""

from __future__ import annotations

import asyncio
import contextlib

import httpx
from prometheus_client import REGISTRY

from broker.world import World, token, until
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.service.serving import listen, port_of, serving
from tocsin.settings import Settings
from tocsin.testing.fake_cluster import SECRET


def neighbours(broker: Broker) -> list[str]:
    return sorted(broker.links._links)


def coordinating(port: int) -> contextlib.AbstractAsyncContextManager[None]:
    service = coordinator.app(Settings(secret=SECRET, heartbeat_s=0.1))
    return serving(service, listen("127.0.0.1", port))


async def test_brokers_form_the_tree_and_close_the_gap_that_a_dead_one_leaves(
    world: World,
) -> None:
    c = await world.broker("c")
    a = await world.broker("a")
    b = await world.broker("b")
    await until(lambda: neighbours(c) == ["a", "b"])
    await until(lambda: neighbours(a) == neighbours(b) == ["c"])
    headers = {"authorization": f"Bearer {token('anybody')}"}
    async with httpx.AsyncClient(base_url=world.coordinator_url, headers=headers) as http:
        shown = (await http.get("/v1/overlay")).json()
    assert shown == {
        "entry": "c",
        "brokers": ["c", "a", "b"],
        "links": [["a", "c"], ["b", "c"]],
    }
    await world.crash(c)
    await until(lambda: neighbours(a) == ["b"] and neighbours(b) == ["a"])
    c = await world.broker("c")
    await until(lambda: neighbours(c) == ["a", "b"])
    await until(lambda: neighbours(a) == neighbours(b) == ["c"])


async def test_a_coordinator_that_is_away_or_starts_anew_changes_nothing(world: World) -> None:
    listener = listen("127.0.0.1", 0)
    port = port_of(listener)
    listener.close()
    world.coordinator_url = f"http://127.0.0.1:{port}"
    async with coordinating(port):
        brokers = [await world.broker(name) for name in ("c", "a", "b", "d")]
        before: list[list[str]] = []
        while before != (now := [neighbours(one) for one in brokers]):  # a pause cuts brokers out
            before = now
            await until(lambda: [len(neighbours(one)) for one in brokers] == [2, 2, 1, 1])
            await asyncio.sleep(0.5)
    await asyncio.sleep(0.5)
    assert [neighbours(one) for one in brokers] == before
    async with coordinating(port):
        await asyncio.sleep(1.0)
        assert [neighbours(one) for one in brokers] == before
        # It speaks again: one that leaves is cut out.
        await world.stop(brokers[0])
        await until(lambda: [len(neighbours(one)) for one in brokers[1:]] == [2, 1, 1])
        assert sum(one.links.counts.relinks for one in brokers) == 0


async def test_links_are_counted(world: World) -> None:
    a = await world.broker("a")
    b = await world.broker("b")
    await until(lambda: neighbours(a) == ["b"] and neighbours(b) == ["a"])

    def read(key: str) -> float | None:
        return REGISTRY.get_sample_value(f"tocsin_broker_{key}", {"broker": "a"})

    assert read("links") == 1
    assert read("relinks_total") == 0
    a.links.close("b", a.links._links["b"].incarnation)
    await until(lambda: read("relinks_total") == 1)
    assert read("link_messages_in_total") == read("link_bytes_out_total") == 0
