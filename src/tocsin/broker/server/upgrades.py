"""Upgrades of HTTP calls to WebSockets: every path asks for a token, and a refusal says why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct
from picows import WSListener, WSUpgradeRequest, WSUpgradeResponse, WSUpgradeResponseWithListener

from tocsin.errors import NotFound, TocsinError
from tocsin.service.tokens import Identity, bearer, verify

# Everything worth telling is in our own structured log; picows' own lines repeat it.
QUIET = logging.getLogger("picows.tocsin")
QUIET.setLevel(logging.CRITICAL + 1)


class Asked(Struct, frozen=True):
    """Who wants a WebSocket, and what the query says."""

    identity: Identity
    query: dict[str, list[str]]
    token: str = ""

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


def upgrade(
    request: WSUpgradeRequest, secret: str, paths: Mapping[str, Accept]
) -> WSListener | WSUpgradeResponseWithListener:
    try:
        url = urlsplit(request.path.decode("ascii", "replace"))
        if url.path not in paths:
            hint = f"connect to {' or '.join(paths)}"
            raise NotFound(f"no route {url.path}", hint=hint)
        query = parse_qs(url.query)
        token = bearer(request.headers.get("Authorization")) or query.get("token", [""])[0]
        listener = paths[url.path](Asked(verify(secret, token), query, token))
    except TocsinError as error:
        return _refuse(error, {})
    except Refused as refused:
        return _refuse(refused.error, refused.headers)
    # Firefox says "keep-alive, Upgrade"; picows takes "Upgrade" alone.
    if "upgrade" in request.headers.get("Connection", "").lower():
        request.headers["Connection"] = "Upgrade"
    return listener


def _refuse(error: TocsinError, headers: Mapping[str, str]) -> WSUpgradeResponseWithListener:
    body = msgspec.json.encode({"error": error.as_dict()})
    told = {"Content-Type": "application/json", **headers}
    response = WSUpgradeResponse.create_error_response(error.status, body, told)
    return WSUpgradeResponseWithListener(response, None)
