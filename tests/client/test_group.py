"""Many subscriptions of a client, asked for together and iterated as one."""

from __future__ import annotations

import asyncio

import pytest

from broker.world import PATIENCE_S, World, until
from tocsin.client import Result, SubscriptionGroup, SyncClient
from tocsin.errors import InvalidInput

TYPES = [{"type": f"t{number}"} for number in range(40)]


async def taken(group: SubscriptionGroup, count: int) -> list[Result]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(group) for _ in range(count)]


@pytest.mark.parametrize("inline", [True, False])
async def test_results_of_all_come_as_one_and_say_whose_they_are(
    world: World, inline: bool
) -> None:
    await world.broker()
    client = await world.client("alice", inline=inline)
    async with await client.subscribe_many("floods", TYPES) as group:
        assert len(group) == 40
        assert [one.arguments for one in group] == TYPES
        for number in (3, 30, 3, 17):
            world.cluster.produce("floods", TYPES[number], [{"n": number}])
        results = await taken(group, 4)
        assert sorted(result.value["n"] for result in results) == [3, 3, 17, 30]
        for result in results:
            assert group[result.subscription].arguments == {"type": f"t{result.value['n']}"}
        threes = [result.position for result in results if result.value["n"] == 3]
        assert threes == [1, 2]
    markers = [frontend.marker for frontend in world.cluster.frontends.values()]
    assert sorted(markers)[-4:] == [0, 1, 1, 2]


async def test_many_travel_to_the_cluster_in_lists(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    group = await client.subscribe_many("floods", TYPES)
    assert len(world.cluster.frontends) == 40
    assert max(world.cluster.subscription_lists) > 1
    again = await world.client("alice")
    same = await again.subscribe_many("floods", TYPES[::-1])
    assert {one.id for one in same} == {one.id for one in group}


async def test_one_that_is_refused_is_named_and_nothing_is_received(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    with pytest.raises(InvalidInput) as raised:
        await client.subscribe_many("floods", [*TYPES[:3], {"colour": "red"}, *TYPES[3:]])
    assert raised.value.index == 3
    assert len(world.cluster.frontends) == 40  # the others were made, as if asked for one by one
    group = await client.subscribe_many("floods", TYPES)
    world.cluster.produce("floods", TYPES[5], [{"n": 5}])
    assert [result.value for result in await taken(group, 1)] == [{"n": 5}]


async def test_the_iteration_ends_when_all_are_over(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    group = await client.subscribe_many("floods", TYPES[:3])
    ending = asyncio.ensure_future(anext(group, None))
    await group.unsubscribe()
    async with asyncio.timeout(PATIENCE_S):
        assert await ending is None
    await until(lambda: not world.cluster.frontends)
    assert group.ended


async def test_the_sync_client_iterates_many(world: World) -> None:
    await world.broker()
    client = await world.client("bob")  # brings the coordinator's address along
    await client.close()
    from broker.world import token

    def application() -> list[int]:
        options = {"token": token("alice")}
        with (
            SyncClient(world.coordinator_url, **options) as tocsin,
            tocsin.subscribe_many("floods", [["t1"], ["t2"]]) as group,
        ):
            for one in TYPES[1:3]:
                loop.call_soon_threadsafe(world.cluster.produce, "floods", one, [{"n": 1}])
            return sorted(next(group).value["n"] for _ in range(len(group)))

    loop = asyncio.get_running_loop()
    assert await asyncio.to_thread(application) == [1, 1]
