"""Routed records through real brokers and links, around a fake cluster."""

from __future__ import annotations

from typing import Any

from broker.world import World, take, until
from tocsin.broker.server import Broker
from tocsin.client import Client, Subscription
from tocsin.testing.fake_routing import ROUTED

NAME = ROUTED.name


async def pair(world: World) -> list[Broker]:
    """Two brokers, linked; records enter at the first."""
    brokers = [await world.broker(f"broker_{number}") for number in (1, 2)]
    await until(lambda: linked(brokers))
    return brokers


def linked(brokers: list[Broker]) -> bool:
    return all(broker.driver.machine.router.neighbours for broker in brokers)


async def at(world: World, broker: Broker, subject: str) -> Client:
    """A client that is served by this broker."""
    client = await world.client(subject)
    here = await world.http(broker, subject)
    await here.get("/v1/subscriptions")
    return client


async def values(subscription: Subscription, count: int) -> list[Any]:
    return [result.value["n"] for result in await take(subscription, count)]


async def test_records_reach_subscribers_at_every_broker_in_order(world: World) -> None:
    brokers = await pair(world)
    heard = [
        await (await at(world, broker, f"p{number}")).subscribe_to_dataset(NAME, "n >= 2")
        for number, broker in enumerate(brokers)
    ]
    world.cluster.route(NAME, [{"key": "a", "n": n} for n in range(6)])
    for one in heard:
        assert await values(one, 4) == [2, 3, 4, 5]
    assert not world.cluster.fetches  # all came by routing


async def test_after_the_store_was_replaced_records_of_the_new_log_are_routed(world: World) -> None:
    brokers = await pair(world)
    heard = [
        await (await world.client(f"p{number}")).subscribe_to_dataset(NAME) for number in range(4)
    ]
    world.cluster.route(NAME, [{"key": "long" * 50, "n": n} for n in range(3)])
    for one in heard:
        assert await values(one, 3) == [0, 1, 2]
    before = [broker.driver.machine.router for broker in brokers]
    world.cluster.wipe()  # positions begin anew, below those that were seen
    await until(lambda: all(b.driver.machine.router not in before for b in brokers))
    await until(lambda: linked(brokers))
    await until(lambda: sum(b.driver.subscriptions for b in brokers) == len(heard))
    world.cluster.route(NAME, [{"key": "a", "n": n} for n in range(10, 12)])
    for one in heard:
        assert await values(one, 2) == [10, 11]
