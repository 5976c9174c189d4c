"""Answers that end their connection although not all of the request's body has come.

Closing a socket with unread bytes resets the connection, and the reset may overtake the answer: the
client would learn that its upload failed, and not why (RFC 9112, 9.6). So the answer is
sent whole, then the rest of the body is read and dropped, up to a bound and for a while, and only
then is the connection closed. Must not know why anything is refused.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.service.http_protocol import WHOLE

LINGER_S = 10.0
LINGER_BYTES = 64 * 1024 * 1024


class Linger:
    """Middleware: for answers with the header `connection: close`, and those that are there before
    the body: whoever sends it for ever keeps no connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body_ended, closing = not _has_body(scope), False
        whole = scope.get("extensions", {}).get(WHOLE, lambda: True)

        async def receive_part() -> Message:
            nonlocal body_ended
            message = await receive()
            body_ended = body_ended or not message.get("more_body", False)
            return message

        async def send_part(message: Message) -> None:
            nonlocal closing
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if not body_ended and not whole():
                    headers["connection"] = "close"
                closing = headers.get("connection") == "close"
            elif closing and not body_ended and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _drop_rest(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, receive_part, send_part)


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


async def _drop_rest(receive: Receive) -> None:
    left_bytes = LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while left_bytes > 0:
                message = await receive()
                if not message.get("more_body", False):  # all has come, or the client has gone
                    return
                left_bytes -= len(message["body"])
