"""A subscription that leaves parameters open, through every door and to the application."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tocsin.client import ANY, Client, Subscription
from tocsin.errors import InvalidInput
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

BASE = """
CREATE DATASET IF NOT EXISTS open_offered (id INT, restaurant STRING, food STRING, discount INT);
CREATE CONTINUOUS CHANNEL IF NOT EXISTS open_offers(restaurant STRING, food STRING, discount INT) AS
  SELECT o.id FROM NEW open_offered o
  WHERE o.restaurant = :restaurant AND o.food = :food AND o.discount >= :discount;
CREATE CONTINUOUS CHANNEL IF NOT EXISTS open_shown(food STRING) AS
  SELECT o.id, :food AS wanted FROM NEW open_offered o WHERE o.food = :food;
CREATE CONTINUOUS CHANNEL IF NOT EXISTS open_counted(least INT, food STRING) AS
  SELECT count(*) AS n FROM NEW open_offered o WHERE o.discount >= :least
  AND EXISTS (SELECT 1 FROM open_offered p WHERE p.food = :food);
"""
RECORDS = [
    {"id": 1, "restaurant": "R1", "food": "pizza", "discount": 30},
    {"id": 2, "restaurant": "R1", "food": "soup", "discount": 10},
    {"id": 3, "restaurant": "R2", "food": "pizza", "discount": 50},
    {"id": 4, "restaurant": "R1", "food": "soup", "discount": 20},
]


async def taken(subscription: Subscription, count: int) -> list[int]:
    return [(await anext(subscription)).value["id"] for _ in range(count)]


async def test_each_hears_what_the_given_arguments_restrict(client: Client) -> None:
    async with asyncio.timeout(240):
        cheap = await client.subscribe("open_offers", restaurant="R1", food=ANY, discount=20)
        pizza = await client.subscribe("open_offers", ANY, "pizza", ANY)
        exact = await client.subscribe("open_offers", restaurant="R1", food="soup", discount=1)
        all_ = await client.subscribe("open_offers", restaurant=ANY, food=ANY, discount=ANY)
        await client.publish("open_offered", RECORDS)
        assert await taken(cheap, 2) == [1, 4]
        assert await taken(pizza, 2) == [1, 3]
        assert await taken(exact, 2) == [2, 4]
        assert await taken(all_, 4) == [1, 2, 3, 4]
        (described,) = await client.sql("DESCRIBE CHANNEL open_offers")
        description = dict(described.rows)
        assert description["may be open"] == "restaurant, food, discount"
        assert description["with food open"] == "hash join"
        assert description["with restaurant, food, discount open"] == "one for all"
        await cheap.unsubscribe()  # a mask less; the others go on
        await client.publish("open_offered", RECORDS[2])
        assert await taken(pizza, 1) == await taken(all_, 1) == [3]
        for each in (pizza, exact, all_):
            await each.unsubscribe()


async def test_every_way_to_say_it_is_the_same_subscription(client: Client, live: System) -> None:
    text = "SUBSCRIBE TO open_offers(restaurant => 'R7', food => ANY, discount => 20)"
    (by_statement,) = await client.sql(text)
    told = dict(zip(by_statement.columns, by_statement.rows[0], strict=True))
    assert told["arguments"] == {"restaurant": "R7", "food": {"any": True}, "discount": 20}
    headers = {"Authorization": f"Bearer {live.token('maria', 'subscribe')}"}
    body = {"channel": "open_offers", "arguments": ["R7", {"any": True}, 20.0]}
    async with httpx.AsyncClient(headers=headers) as http:
        url = f"{live.cluster_url}/v1/subscriptions"
        answer = (await http.post(url, json=body)).raise_for_status().json()
    assert answer["subscription"] == told["subscription"]
    async with await client.subscribe("open_offers", "R7", ANY, 20) as by_client:
        assert by_client.id == told["subscription"]
        await by_client.unsubscribe()


async def test_an_aggregate_beside_a_subquery_is_counted_without_the_open_condition(
    client: Client,
) -> None:
    async with asyncio.timeout(240):
        counted = await client.subscribe("open_counted", least=ANY, food="pizza")
        none = await client.subscribe("open_counted", least=99, food="pizza")
        await client.publish("open_offered", RECORDS[0])
        assert [(await anext(each)).value for each in (counted, none)] == [{"n": 1}, {"n": 0}]
        for each in (counted, none):
            await each.unsubscribe()


async def test_what_cannot_be_open_is_refused_by_name(client: Client) -> None:
    with pytest.raises(InvalidInput, match=r"'food' cannot be left open.*SELECT list") as caught:
        await client.subscribe("open_shown", food=ANY)
    assert caught.value.field == "food"
    with pytest.raises(InvalidInput, match="'discount' is missing"):
        await client.sql("SUBSCRIBE TO open_offers(restaurant => 'R1', food => ANY)")
    (described,) = await client.sql("DESCRIBE CHANNEL open_shown")
    description = dict(described.rows)
    assert (description["may be open"], description["must be given"][:5]) == ("none", "food:")
