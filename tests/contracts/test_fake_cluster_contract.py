from __future__ import annotations

from typing import Any

import pytest

from contracts.cluster_contract import CHANNEL, CHECKS, Check
from contracts.routing_contract import ROUTING_CHECKS
from tocsin.testing.fake_cluster import FakeCluster
from tocsin.testing.fake_routing import ROUTED


class FakeDriver:
    def __init__(self, cluster: FakeCluster) -> None:
        self.url = cluster.url
        self.secret = cluster.secret
        self._cluster = cluster

    async def produce(self, key: str, count: int) -> None:
        self._cluster.produce(CHANNEL, {"key": key}, [{"n": n} for n in range(count)])

    async def publish(self, records: list[dict[str, Any]]) -> None:
        self._cluster.route(ROUTED.name, records)


@pytest.mark.parametrize("check", [*CHECKS, *ROUTING_CHECKS], ids=lambda check: str(check.__name__))
async def test_the_fake_cluster_keeps_the_contract(check: Check) -> None:
    async with FakeCluster().serve() as cluster:
        await check(FakeDriver(cluster))
