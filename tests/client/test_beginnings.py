"""A newcomer may begin in the past, of a channel and of a dataset's records."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from broker.world import World, take, token, until
from tocsin.client import Last, SyncClient
from tocsin.client.beginning import beginning_of
from tocsin.errors import InvalidInput, StatementError
from tocsin.model import Beginning
from tocsin.testing.fake_routing import ROUTED

FLOOD = {"type": "flood"}


async def test_a_new_subscription_begins_where_it_says_and_a_repeat_where_it_was(
    world: World,
) -> None:
    await world.broker()
    first = await world.client("alice")
    async with await first.subscribe("floods", type="flood"):
        world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(5)])
        second = await world.client("bob")
        async with await second.subscribe("floods", type="flood", from_=Last(2)) as floods:
            assert [one.value["n"] for one in await take(floods, 2)] == [3, 4]
        third = await world.client("bob")
        async with await third.subscribe("floods", type="flood", from_=600) as floods:
            world.cluster.produce("floods", FLOOD, [{"n": 5}])
            assert [one.value["n"] for one in await take(floods, 1)] == [5]
        fourth = await world.client("carol")
        stream = fourth.listen("floods", "flood", from_=timedelta(minutes=10))
        assert [(await anext(stream)).value["n"] for _ in range(6)] == [0, 1, 2, 3, 4, 5]


async def test_rest_begins_in_the_past_too(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "alice")
    await until(lambda: broker.driver.machine.store_id)
    wish: dict[str, Any] = {"channel": "floods", "arguments": FLOOD}
    await http.post("/v1/subscriptions", json=wish)
    world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(3)])
    http = await world.http(broker, "bob")
    made = (await http.post("/v1/subscriptions", json=wish | {"from": {"last": 1}})).json()
    assert made["marker"] == 2
    for wrong in ({"last": 0}, {"months": 1}, "soon"):
        told = await http.post("/v1/subscriptions", json=wish | {"from": wrong})
        assert told.status_code == 400
        assert told.json()["error"]["field"] in ("from", "months")


async def test_records_of_a_dataset_are_subscribed_to_by_a_filter(world: World) -> None:
    await world.broker()
    world.cluster.route(ROUTED.name, [{"key": "a", "n": n} for n in range(4)])
    client = await world.client("alice")
    wanted = await client.subscribe_to_dataset(ROUTED.name, "n <> 2", from_=Last(2))
    async with wanted as records:
        assert [one.value["n"] for one in await take(records, 2)] == [1, 3]
        assert records.channel == f"dataset/{ROUTED.name}"
    with pytest.raises(StatementError, match="colour"):
        await client.subscribe_to_dataset(ROUTED.name, "colour = 'red'")


async def test_the_sync_client_begins_in_the_past(world: World) -> None:
    await world.broker()
    world.cluster.route(ROUTED.name, [{"key": "a", "n": n} for n in range(4)])

    def application() -> list[int]:
        with (
            SyncClient(world.coordinator_url, token=token("alice")) as tocsin,
            tocsin.subscribe_to_dataset(ROUTED.name, "n >= 2", from_=3600) as records,
        ):
            return [next(records).value["n"] for _ in range(2)]

    assert await asyncio.to_thread(application) == [2, 3]


def test_what_is_no_beginning_is_refused() -> None:
    assert beginning_of(None) is None
    assert beginning_of(1) == Beginning(seconds=1.0)
    assert beginning_of(Last(3)) == Beginning(last=3)
    for wrong in ("10 minutes", True, [1]):
        with pytest.raises(InvalidInput) as error:
            beginning_of(wrong)  # type: ignore[arg-type]
        assert error.value.field == "from"
