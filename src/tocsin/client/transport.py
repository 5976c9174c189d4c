"""How calls leave: httpx, made to tell every absent peer as an `httpx.HTTPError`.

By itself it does not. When a peer hangs up in the very moment of connecting, anyio asks a
connection that has no socket any more for its peer's address: an AttributeError on uvloop, an
OSError where the socket is still there. Nothing was sent then, so that such a call may be repeated.
An error of our own code passes as it is: nobody may take it for a peer that is away.
"""

from __future__ import annotations

import functools
import ssl
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tocsin.protocol.version import HEADER, check_peer, version_header


@functools.cache
def tls() -> ssl.SSLContext:
    """One for all: reading the certificates anew for every client takes a tenth of a second."""
    return ssl.create_default_context()


class HttpClient(httpx.AsyncClient):
    """httpx' client, whose calls raise `httpx.HTTPError` when the peer is not there, and
    `UpgradeRequired` when it is too old. `speaker` is who calls, as that error names it."""

    def __init__(self, *, speaker: str = "this client", **options: Any) -> None:
        headers = version_header() | options.pop("headers", {})
        super().__init__(verify=tls(), headers=headers, **options)
        self._speaker = speaker

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        with _report_lost_sockets(request):
            response = await super().send(request, **options)
        version = response.headers.get(HEADER)
        check_peer(version, f"the service at {request.url.netloc.decode()}", self._speaker)
        return response


class Transport(httpx.AsyncHTTPTransport):
    """The same for callers that need less than a client does."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with _report_lost_sockets(request):
            return await super().handle_async_request(request)


@contextmanager
def _report_lost_sockets(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except (AttributeError, OSError) as error:
        if not _raised_by_a_lost_socket(error):
            raise
        reason = "the peer hung up while it was connected to"
        raise httpx.ConnectError(reason, request=request) from error


def _raised_by_a_lost_socket(error: Exception) -> bool:
    """Whether anyio raised it while it looked at a new connection."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("anyio.") and frame.f_code.co_name == "extra_attributes"
