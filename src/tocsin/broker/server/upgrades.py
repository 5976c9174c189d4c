"""Upgrades of HTTP calls to WebSockets: every path asks for a token, and a refusal says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct
from picows import (
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)

from tocsin.errors import NotFound, TocsinError
from tocsin.protocol import client as frames
from tocsin.protocol.failure import error_body, error_info
from tocsin.protocol.version import HEADER, PARAMETER, version_header
from tocsin.service.connections import of_transport
from tocsin.service.exposure import EVERYTHING_HERE, Exposure
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.openapi import TOKEN_PARAMETER
from tocsin.service.tokens import Identity, bearer
from tocsin.service.web import token_in_address

# Everything worth telling is in our own structured log; picows' own lines repeat it.
QUIET = logging.getLogger("picows.tocsin")
QUIET.setLevel(logging.CRITICAL + 1)


class Asked(Struct, frozen=True):
    """Who wants a WebSocket, and what the query says."""

    identity: Identity
    query: dict[str, list[str]]
    token: str = ""
    protocol: str | None = None  # the version that the peer told, …
    in_header: bool = False  # … and whether by a header, which browsers cannot set

    def first(self, name: str) -> str | None:
        return self.query[name][0] if name in self.query else None


class Refused(Exception):
    """An error to answer with, and what a caller that knows of it finds in the headers."""

    def __init__(self, error: TocsinError, headers: Mapping[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.headers = headers


Accept = Callable[[Asked], WSListener]
"""What listens to a new connection; raises a TocsinError, or Refused, if there is to be none."""


class Entrance(Struct, frozen=True):
    """A path to connect to. `audience`: tokens for it alone are taken too. `token_in_query`:
    browsers come here, and can set no header."""

    accept: Accept
    audience: str = ""
    token_in_query: bool = False


def upgrade(
    request: WSUpgradeRequest,
    verifier: TokenVerifier,
    paths: Mapping[str, Entrance],
    exposure: Exposure = EVERYTHING_HERE,
) -> WSUpgradeResponseWithListener:
    try:
        url = urlsplit(request.path.decode("ascii", "replace"))
        if url.path not in paths:
            hint = f"connect to {' or '.join(paths)}"
            raise NotFound(f"no route {url.path}", hint=hint)
        exposure.check_origin(request.headers.get("Origin"))
        entrance, query = paths[url.path], parse_qs(url.query)
        if TOKEN_PARAMETER in query and not entrance.token_in_query:
            raise token_in_address()
        in_query = query.get(TOKEN_PARAMETER, [""])[0]
        token = bearer(request.headers.get("Authorization")) or in_query
        header, parameter = request.headers.get(HEADER), query.get(PARAMETER, [None])[0]
        identity = verifier.verify(token, entrance.audience)
        asked = Asked(identity, query, token, header or parameter, bool(header))
        listener = entrance.accept(asked)
    except TocsinError as error:
        return _refuse(error, {})
    except Refused as refused:
        return _refuse(refused.error, refused.headers)
    # Firefox says "keep-alive, Upgrade"; picows takes "Upgrade" alone.
    if "upgrade" in request.headers.get("Connection", "").lower():
        request.headers["Connection"] = "Upgrade"
    accepted = WSUpgradeResponse.create_101_response(version_header())
    return WSUpgradeResponseWithListener(accepted, listener)


def let_in(transport: WSTransport) -> None:
    """Whoever has a WebSocket has shown a token."""
    connection = of_transport(transport.underlying_transport)
    if connection is not None:
        connection.known()


class RefusedSocket(WSListener):
    """A browser sees nothing of an upgrade that is refused: it is let in, hears why, and finds a
    code in the close."""

    def __init__(self, code: int, error: TocsinError) -> None:
        self._code = code
        self._error = error

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.send(WSMsgType.TEXT, frames.encode(frames.Failure(error_info(self._error))))
        transport.send_close(self._code, self._error.message.encode()[:120])  # type: ignore[arg-type]
        transport.disconnect()


def _refuse(error: TocsinError, headers: Mapping[str, str]) -> WSUpgradeResponseWithListener:
    content = {"Content-Type": "application/json", **version_header(), **headers}
    response = WSUpgradeResponse.create_error_response(error.status, error_body(error), content)
    return WSUpgradeResponseWithListener(response, None)
