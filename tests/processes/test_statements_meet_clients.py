"""What a statement does to a subscription whose subscriber is online."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.client import Client

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

BASE = """
CREATE DATASET IF NOT EXISTS met_reports (id STRING, kind STRING);
CREATE CONTINUOUS CHANNEL IF NOT EXISTS met_by_kind(kind STRING) AS
  SELECT r.id FROM NEW met_reports r WHERE r.kind = :kind;
"""


async def test_unsubscribe_of_the_last_subscription_ends_it_and_the_client_goes_on(
    client: Client,
) -> None:
    floods = await client.subscribe("met_by_kind", kind="flood")
    await client.sql(f"UNSUBSCRIBE {floods.id}")
    async with asyncio.timeout(30):
        assert [result async for result in floods] == []
        assert floods.ended
        async with await client.subscribe("met_by_kind", kind="flood") as again:
            await client.publish("met_reports", {"id": "a", "kind": "flood"})
            assert (await anext(again)).value == {"id": "a"}
            await again.unsubscribe()


async def test_change_subscription_takes_the_client_to_the_other_broker(client: Client) -> None:
    async with await client.subscribe("met_by_kind", kind="fire") as fires, asyncio.timeout(30):
        here = client.broker
        there = "broker_2" if here == "broker_1" else "broker_1"
        await client.sql(f"CHANGE SUBSCRIPTION {fires.id} TO {there}")
        while client.broker != there:  # noqa: ASYNC110 (no event to wait for)
            await asyncio.sleep(0.05)
        await client.publish("met_reports", {"id": "b", "kind": "fire"})
        assert (await anext(fires)).value == {"id": "b"}
        assert fires.gaps == []
        await fires.unsubscribe()
