"""A gateway in this process before a cluster that is in it too; and both doors of one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from cluster.sparkless import SECRET, SparklessCluster
from tocsin.gateway.service import Gateway, app
from tocsin.service.hosting import hosting
from tocsin.service.serving import listen, port_of
from tocsin.settings import Settings

DOORS = ("cluster", "gateway")


class GatewayHere(Gateway):
    url: str


@contextlib.asynccontextmanager
async def gateway_before(cluster_url: str, **changes: Any) -> AsyncIterator[GatewayHere]:
    given: dict[str, Any] = {"secret": SECRET, "cluster_url": cluster_url} | changes
    settings = Settings(**given)
    listener = listen("127.0.0.1", 0)
    gateway = GatewayHere(settings)
    gateway.url = f"http://127.0.0.1:{port_of(listener)}"
    async with gateway, hosting(settings, partial(app, gateway), listener, None):
        yield gateway
        await gateway.passing.end_answers()


@contextlib.asynccontextmanager
async def through(cluster: SparklessCluster, door: str) -> AsyncIterator[SparklessCluster]:
    """The cluster as it is called by its own door, or by that of a gateway before it, which has the
    same limits."""
    if door == "cluster":
        yield cluster
        return
    settings, own = cluster.settings, cluster.url
    limits = {
        "body_limit_bytes": settings.body_limit_bytes,
        "record_limit_bytes": settings.record_limit_bytes,
        "request_records": settings.request_records,
    }
    async with gateway_before(own, **limits) as gateway:
        cluster.url = gateway.url
        yield cluster
        cluster.url = own
