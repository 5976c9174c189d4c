"""Open the store of a cluster that starts: a database or Kafka that is not there yet is waited for.

Meanwhile every call is told what the cluster waits for. What no waiting mends (a wrong password,
another cluster on the same store) is raised at once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin import durable
from tocsin.backoff import Backoff
from tocsin.errors import Unavailable
from tocsin.protocol.cluster import ClusterStatus
from tocsin.service.hosting import hosting
from tocsin.service.listener import Listener
from tocsin.service.tls import Certificate
from tocsin.service.web import TellVersion, error_response, health, json_response
from tocsin.settings import Settings
from tocsin.storage import tables
from tocsin.storage.backup.notes import require_startable
from tocsin.storage.log import check_reachable
from tocsin.storage.store.store import Store

log = structlog.get_logger()

METHODS = ["GET", "POST", "PUT", "DELETE"]


async def opened_store(
    settings: Settings, listener: Listener, certificate: Certificate | None = None
) -> Store:
    try:
        return await asyncio.to_thread(open_store, settings)
    except Unavailable as error:
        waiting = _Waiting(error)
    # Serving closes what it is given.
    async with hosting(settings, lambda _: waiting.app(), listener.dup(), certificate):
        backoff = Backoff(Random(), first_s=0.2, most_s=2.0)
        while True:
            await asyncio.sleep(backoff.next_s())
            try:
                store = await asyncio.to_thread(open_store, settings)
            except Unavailable as error:
                waiting.reason = error
            else:
                log.info("what the cluster waited for is there")
                return store


def open_store(settings: Settings) -> Store:
    data = Path(settings.data).absolute()
    require_startable(data)
    durable.make_directory(data)
    check_reachable(settings.log)
    tables.check_reachable(settings.tables)
    address = settings.store or f"sqlite:///{data / 'store.db'}"
    lease_s = settings.store_lease_s
    store = Store.open(address, busy_timeout_s=max(10.0, 2 * lease_s), lease_s=lease_s)
    if store.risk is not None:
        log.warning("the store may lose commits at a power cut", reason=store.risk)
    return store


class _Waiting:
    """A cluster without a store, or without its log."""

    def __init__(self, reason: Unavailable) -> None:
        self.reason = reason
        log.warning("the cluster waits", reason=reason.message, hint=reason.hint)

    def app(self) -> Starlette:
        routes = [Route("/{path:path}", self._answer, methods=METHODS)]
        return Starlette(routes=routes, middleware=[Middleware(TellVersion)])

    async def _answer(self, request: Request) -> Response:
        if request.url.path == "/v1/status":
            return json_response(ClusterStatus(ready=False, waits_for=self.reason.message))
        if request.url.path == "/healthz":
            return health("waits", 503)
        return error_response(self.reason)
