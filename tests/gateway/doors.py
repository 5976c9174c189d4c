"""A gateway in this process before a cluster that is in it too; and both doors of one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from cluster.sparkless import SECRET
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
async def door_of(cluster: Any, door: str) -> AsyncIterator[str]:
    """The address by which publishers reach the cluster: its own, or that of a gateway before it,
    with the cluster's limits."""
    if door == "cluster":
        yield cluster.url
        return
    settings = cluster.settings
    limits = {
        "body_limit_bytes": settings.body_limit_bytes,
        "record_limit_bytes": settings.record_limit_bytes,
        "request_records": settings.request_records,
    }
    async with gateway_before(cluster.url, **limits) as gateway:
        yield gateway.url
