"""Serve what a service has, at the addresses and with the certificate that its settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from starlette.applications import Starlette

from tocsin.service.exposure import inner_place
from tocsin.service.listener import Listener
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tls import Certificate, watched
from tocsin.settings import Settings

log = structlog.get_logger()

Build = Callable[[bool], Starlette]
"""The application; True: the one for the inner address."""


@asynccontextmanager
async def hosting(
    settings: Settings, build: Build, listener: Listener, certificate: Certificate | None
) -> AsyncIterator[None]:
    """Serve while the block runs, and take up a certificate that is renewed."""
    tls = None if certificate is None else certificate.context
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(watched(certificate))
        if settings.inner_address:
            inner = listen(*inner_place(settings), "inner_address", listener.connections)
            await stack.enter_async_context(serving(build(True), inner, tls))
            log.info("metrics, docs and status", port=port_of(inner))
        await stack.enter_async_context(serving(build(False), listener, tls))
        yield


def scheme(settings: Settings, plain: str = "http") -> str:
    """How listeners are called: http or https, ws or wss."""
    return plain + "s" if settings.certificate else plain
