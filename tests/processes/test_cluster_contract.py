"""The real cluster keeps what brokers rely on, like the fake one that their tests use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from contracts.cluster_contract import CHANNEL, CHECKS, Check
from contracts.routing_contract import DATASET, ROUTING_CHECKS
from tocsin.client import Client
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


class RealDriver:
    """Makes results by publishing records that a continuous channel matches."""

    def __init__(self, system: System) -> None:
        self.url = system.cluster_url
        self.secret = system.settings.secret
        self._client = Client(
            cluster=self.url, token=system.token("driver", "admin", "publish", "subscribe")
        )

    async def prepare(self) -> None:
        assert (CHANNEL, DATASET) == ("contract", "contract_routed")
        await self._client.sql(
            "CREATE DATASET IF NOT EXISTS contract_records (key STRING, n BIGINT);"
            "CREATE DATASET IF NOT EXISTS contract_routed (key STRING, n BIGINT) ROUTED;"
            "CREATE CONTINUOUS CHANNEL IF NOT EXISTS contract(key STRING) AS "
            "SELECT r.n FROM NEW contract_records r WHERE r.key = :key"
        )

    async def produce(self, key: str, count: int) -> None:
        before = await self._head(key)
        await self._client.publish("contract_records", [{"key": key, "n": n} for n in range(count)])
        async with asyncio.timeout(60):
            while await self._head(key) < before + count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def publish(self, records: list[dict[str, Any]]) -> None:
        await self._client.publish(DATASET, records)

    async def _head(self, key: str) -> int:
        (shown,) = await self._client.sql("SHOW SUBSCRIPTIONS")
        at = {name: index for index, name in enumerate(shown.columns)}
        heads = [
            row[at["head"]]
            for row in shown.rows
            if row[at["channel"]] == CHANNEL and row[at["arguments"]] == {"key": key}
        ]
        return max(heads, default=0)

    async def close(self) -> None:
        await self._client.close()


@pytest.mark.parametrize("check", [*CHECKS, *ROUTING_CHECKS], ids=lambda check: str(check.__name__))
async def test_the_real_cluster_keeps_the_contract(live: System, check: Check) -> None:
    driver = RealDriver(live)
    try:
        await driver.prepare()
        await check(driver)
    finally:
        await driver.close()
