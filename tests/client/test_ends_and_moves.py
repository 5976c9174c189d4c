"""A subscription that another ended, and a subscriber that was moved to another broker."""

from __future__ import annotations

import asyncio

import pytest

from broker.world import PATIENCE_S, World, cut, take, token, until
from tocsin.client import Client
from tocsin.errors import Conflict
from tocsin.protocol.coordinator import LiveBrokers

FLOOD = {"type": "flood"}


async def until_known(world: World, *names: str, connections: int = 0) -> None:
    """Wait until the coordinator has heard of these brokers, and of their connections."""
    async with Client(world.coordinator_url, token=token("x")) as asking:
        assert asking._finder is not None
        async with asyncio.timeout(PATIENCE_S):
            known: set[str] = set()
            while not known.issuperset(names):
                heard = await asking._finder.call(
                    "GET", "/v1/brokers", LiveBrokers, repeatable=True
                )
                known = {
                    broker.name for broker in heard.brokers if broker.connections >= connections
                }


async def test_connecting_elsewhere_as_the_same_subscriber_is_told(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    async with Client(broker=one.url, token=token("alice")) as client:
        floods = await client.subscribe("floods", type="flood")
        other = Client(broker=two.ws_url, token=token("alice"))
        async with other:
            theirs = await other.subscribe("floods", type="flood")
            with pytest.raises(Conflict):
                await take(floods, 1)
            world.cluster.produce("floods", FLOOD, [{"n": 1}])
            assert (await take(theirs, 1))[0].value == {"n": 1}


async def test_connecting_elsewhere_takes_the_older_connection_along(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    await until_known(world, "one", "two")
    first = await world.client("alice")
    floods = await first.subscribe("floods", type="flood")
    other = two if first.broker == "one" else one
    async with Client(broker=other.url, token=token("alice")) as second:
        theirs = await second.subscribe("floods", type="flood")
        await until(lambda: first.broker == other.name)
        world.cluster.produce("floods", FLOOD, [{"n": 1}])
        for each in (floods, theirs):
            assert (await take(each, 1))[0].value == {"n": 1}


async def test_a_client_follows_a_subscription_that_a_statement_moved(world: World) -> None:
    brokers = {name: await world.broker(name) for name in ("one", "two")}
    await until_known(world, *brokers)
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    fires = await client.subscribe("floods", type="fire")
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await take(floods, 1)
    target = "two" if client.broker == "one" else "one"
    for name in ("bob", "carol", "dave"):  # the coordinator would not send anybody there
        await world.socket(brokers[target], name)
    await until_known(world, target, connections=3)
    world.cluster.move(floods.id, target)
    await until(lambda: client.broker == target)
    assert {f.broker for f in world.cluster.frontends.values()} == {target}
    world.cluster.produce("floods", FLOOD, [{"n": 2}])
    world.cluster.produce("floods", {"type": "fire"}, [{"n": 3}])
    assert [r.value["n"] for r in await take(floods, 1)] == [2]
    assert [r.value["n"] for r in await take(fires, 1)] == [3]
    assert floods.gaps == []


async def test_a_client_moved_to_a_broker_that_is_dead_finds_another(world: World) -> None:
    brokers = {name: await world.broker(name) for name in ("one", "two")}
    await until_known(world, *brokers)
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    here = client.broker
    dead = "two" if here == "one" else "one"
    await world.crash(brokers[dead])
    world.cluster.move(floods.id, dead)
    await until(lambda: world.cluster.frontends[floods.id].broker == here)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert [r.position for r in await take(floods, 1)] == [1]


@pytest.mark.parametrize("connected", [True, False])
async def test_a_subscription_that_another_ended_ends_its_loop_and_nothing_else(
    world: World, connected: bool
) -> None:
    broker = await world.broker()
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    fires = await client.subscribe("floods", type="fire")
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await until(lambda: floods._listener.feed.position == 1)
    if not connected:
        world.cluster.down = True
        await cut(broker)
    world.cluster.end(floods.id)
    world.cluster.down = False
    async with asyncio.timeout(PATIENCE_S):
        assert [result.value["n"] async for result in floods] == [1]
    assert (floods.ended, fires.ended) == (True, False)
    await floods.close()
    assert len(world.cluster.frontends) == 1  # nobody brought it back
    again = await client.subscribe("floods", type="flood")
    for kind in ("flood", "fire"):
        world.cluster.produce("floods", {"type": kind}, [{"kind": kind}])
    assert (await take(again, 1))[0].value == {"kind": "flood"}
    assert (await take(fires, 1))[0].value == {"kind": "fire"}


async def test_the_last_subscription_ended_leaves_the_client_connected(world: World) -> None:
    broker = await world.broker()
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    (connection,) = broker.sockets.connections
    world.cluster.end(floods.id)
    async with asyncio.timeout(PATIENCE_S):
        assert [result async for result in floods] == []
    again = await client.subscribe("floods", type="flood")
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert [r.position for r in await take(again, 1)] == [1]
    assert broker.sockets.connections == {connection}


async def test_a_cluster_made_anew_is_subscribed_to_again_and_the_loss_is_told(
    world: World,
) -> None:
    await world.broker()
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    world.cluster.wipe()
    await until(lambda: world.cluster.frontends)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    (result,) = await take(floods, 1)
    assert result.gap is not None
    assert not floods.ended
