"""A broker that knows gateways hands publications on to them, and asks all else of the cluster."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client import REGISTRY

from cluster.sparkless import SECRET, sparkless
from cluster.test_grants import REPORTS
from gateway.doors import gateway_before
from tocsin.broker.server.cluster_link import ClusterLink
from tocsin.service.keys.credentials import credential_of
from tocsin.service.tokens import mint


def handed_on() -> float:
    labels = {"outcome": "answered"}
    return REGISTRY.get_sample_value("tocsin_gateway_calls_total", labels) or 0.0


async def test_publications_at_a_broker_go_by_way_of_gateways(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster, gateway_before(cluster.url) as gateway:
        await cluster.create_dataset(REPORTS)
        link = ClusterLink(
            cluster.url,
            credential_of(cluster.settings),
            "broker_1",
            gateway_url=f"{gateway.url},{gateway.url}",
        )
        before = handed_on()
        token = mint(SECRET, "ann", ["publish"], expires_s=600, now=time.time())
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        published = (await link.publish("reports", b'{"n":1}', headers)).published()
        await link.register("http://127.0.0.1:1")
        await link.close()
        assert published.accepted == 1
        assert cluster.log.ends()["reports"] == published.end
        assert handed_on() == before + 1
