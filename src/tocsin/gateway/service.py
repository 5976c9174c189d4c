"""A gateway's service: publications are taken here, all other calls are passed on.

It holds nothing that must last: whoever is killed with what waits in it, nobody was told that any
of it was taken.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial

import structlog
from starlette.applications import Starlette

from tocsin.client.addresses import TAKEOVER_S
from tocsin.errors import QuotaExceeded, RecordError, Unconfirmed
from tocsin.gateway.catalog import Catalog
from tocsin.gateway.leader import Leader
from tocsin.gateway.passing import Passing
from tocsin.gateway.publishing import Publishing
from tocsin.gateway.relay import CALL_BYTES, Relay
from tocsin.intake.large_bodies import LargeBodies
from tocsin.protocol.appends import GatewayStatus
from tocsin.protocol.publishing import Published
from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.exposure import exposure_of
from tocsin.service.hosting import hosting, scheme
from tocsin.service.keys.credentials import gateway_credential
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.openapi import Media
from tocsin.service.serving import listen, port_of, until_stopped
from tocsin.service.tls import certificate_of
from tocsin.service.web import Call, Route, application
from tocsin.settings import Settings

log = structlog.get_logger()

BODIES = 4  # so many of the largest size wait at once; half of them of one publisher
LOOK_EVERY_S = 2.0
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Gateway:
    """Use as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        named = settings.gateway_name, settings.authority
        self.settings = settings
        self.verifier = TokenVerifier.of(settings)
        self.leader = Leader(settings.cluster_url, gateway_credential(settings), *named)
        limit_bytes = settings.body_limit_bytes
        self.relay = Relay(
            self.leader.append,
            most_bytes=BODIES * limit_bytes,
            call_bytes=min(CALL_BYTES, limit_bytes // 2),
        )
        self.passing = Passing(settings.cluster_url, *named)
        self.large_bodies = LargeBodies(limit_bytes)
        self.publishing = Publishing(
            settings,
            Catalog(self.leader.dataset),
            self.relay,
            self.passing,
            self.large_bodies,
            keys=self.leader.several,
        )
        self._alone_since: float | None = None  # nobody leads
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Gateway:
        await self.relay.__aenter__()
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.relay.__aexit__()
        await self.passing.close()
        await self.leader.close()
        self.large_bodies.close()

    async def _look(self) -> None:
        while True:
            if await self.leader.serves():
                self._alone_since = None
            elif self._alone_since is None:
                self._alone_since = time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)

    @property
    def waits_for(self) -> str | None:
        away = self.relay.away
        if away is not None:
            return away.message
        return None if self._alone_since is None else "a cluster that leads"

    @property
    def trouble(self) -> str | None:
        """Why publications are refused. A takeover is waited for, and is none."""
        if self.leader.refused is not None:
            return f"the cluster refuses this gateway: {self.leader.refused}"
        since = self._alone_since
        if since is None or time.monotonic() - since < TAKEOVER_S:
            return None
        return f"no cluster leads at {self.settings.cluster_url}"

    async def status(self, _: Call) -> GatewayStatus:
        waits_for = self.waits_for
        return GatewayStatus(
            ready=waits_for is None,
            cluster=self.leader.url,
            waiting=self.relay.waiting,
            held_bytes=self.relay.held_bytes,
            waits_for=waits_for,
            trouble=self.trouble,
        )

    def routes(self) -> list[Route]:
        """What is described here has its own answer; all else has the cluster's."""
        status, passed = "whether a cluster leads, and what waits", "passed on to the cluster"
        return [
            Route("GET", "/v1/status", self.status, None, status, answers=GatewayStatus),
            Route(
                "POST",
                "/v1/datasets/{name}/records",
                self.publishing.records,
                ("publish",),
                "publish records: JSON, JSON lines, CSV or Parquet by Content-Type",
                Media("application/x-ndjson"),
                Published,
                also={422: Published},
                errors=(RecordError, QuotaExceeded, Unconfirmed),
                limit_bytes=None,
            ),
            *(
                Route(
                    method,
                    "/v1/{path:path}",
                    self.passing.pass_on,
                    (),
                    passed,
                    limit_bytes=None,
                    described=False,
                )
                for method in METHODS
            ),
        ]


def app(gateway: Gateway, inner: bool = False) -> Starlette:
    settings = gateway.settings
    return application(
        "Tocsin gateway",
        gateway.routes(),
        verifier=gateway.verifier,
        limit_bytes=settings.body_limit_bytes,
        trouble=lambda: gateway.trouble,
        exposure=exposure_of(settings),
        inner=inner,
    )


async def run(settings: Settings) -> None:
    """Serve until a signal asks to stop."""
    certificate = certificate_of(settings)
    connections = Connections(ConnectionLimits.of(settings))
    listener = listen(settings.host, settings.gateway_port, "gateway_port", connections)
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(Gateway(settings))
        async with hosting(settings, partial(app, gateway), listener, certificate):
            url = f"{scheme(settings)}://{settings.host}:{port_of(listener)}"
            log.info("the gateway listens", url=url, cluster=settings.cluster_url)
            await until_stopped()
            await gateway.passing.end_answers()  # nobody waits for the end of what has none
            log.info("the gateway stops")
