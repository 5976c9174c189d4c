"""How calls leave: httpx, made to tell every absent peer as an `httpx.HTTPError`.

By itself it does not. When a peer hangs up in the very moment of connecting, anyio asks a
connection that has no socket any more for its peer's address: an AttributeError on uvloop, an
OSError where the socket is still there. Nothing was sent then, so that such a call may be repeated.
An error of our own code passes as it is: nobody may take it for a peer that is away.
"""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tocsin.errors import SettingError
from tocsin.protocol.version import HEADER, check_peer, version_header

AUTHORITY = "TOCSIN_AUTHORITY"


def tls(authority: str = "") -> ssl.SSLContext:
    """What calls trust: the authorities in a PEM file; else in the one that the variable
    TOCSIN_AUTHORITY names; else those of the machine (and of SSL_CERT_FILE).

    One context for all who trust the same: reading the certificates anew for every client takes a
    tenth of a second. A file that was replaced counts from the next call of this on; what was
    trusted before stays so until the process ends.
    """
    trust = _trust(authority or os.environ.get(AUTHORITY, ""))
    trust.refresh()
    return trust.context


class _Trust:
    def __init__(self, file: str) -> None:
        self._file = file
        if file:
            _check(file)
            self._stamp = self._stamped()
        self.context = ssl.create_default_context(cafile=file or None)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def refresh(self) -> None:
        if not self._file:
            return
        with contextlib.suppress(OSError, SettingError):  # half written: the next call has it
            stamp = self._stamped()
            if stamp != self._stamp:
                _check(self._file)
                self.context.load_verify_locations(self._file)
                self._stamp = stamp

    def _stamped(self) -> tuple[int, int, int]:
        status = Path(self._file).stat()
        return status.st_mtime_ns, status.st_size, status.st_ino


_trust = functools.cache(_Trust)


def _check(authority: str) -> None:
    """Whether the file can be trusted at all."""

    def refused(reason: str) -> SettingError:
        message = f"setting authority: {authority}: {reason}"
        return SettingError(message, field="authority")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        Path(authority).read_bytes()
        context.load_verify_locations(authority)
    except ssl.SSLError:
        raise refused("it holds no certificate in PEM form") from None
    except OSError as error:
        raise refused(f"it cannot be read: {error.strerror}") from None
    ends = [str(known.get("notAfter")) for known in context.get_ca_certs()]
    if ends and all(ssl.cert_time_to_seconds(end) < time.time() for end in ends):
        raise refused(f"its certificate expired on {ends[-1]}")


def distrust(error: BaseException) -> str | None:
    """Why a peer was not trusted, or did not speak TLS; None if a call failed otherwise."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted: {cause.verify_message.rstrip('.')}; authority (or"
                f" {AUTHORITY}) names the file with the authorities to trust"
            )
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS: http:// and ws:// instead of https:// and wss://"
        cause = cause.__cause__ or cause.__context__
    return None


class HttpClient(httpx.AsyncClient):
    """httpx' client, whose calls raise `httpx.HTTPError` when the peer is not there, and
    `UpgradeRequired` when it is too old. `speaker` is who calls, as that error names it."""

    def __init__(
        self, *, speaker: str = "this client", authority: str = "", **options: Any
    ) -> None:
        headers = version_header() | options.pop("headers", {})
        super().__init__(verify=tls(authority), headers=headers, **options)
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
