"""How long a request's body may take: a pause at the beginning, and then a least speed.

Only the time counts in which somebody waits for the body; what a service does meanwhile does not.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.errors import TooSlow
from tocsin.service.http_protocol import PATIENCE_S

LEAST_BYTES_A_S = 4 * 1024


class Patience:
    """Middleware: a body that does not go on is an error of whoever waits for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        patience_s = scope.get("extensions", {}).get(PATIENCE_S)
        if patience_s is None:
            await self._app(scope, receive, send)
            return
        body = _Body(receive, patience_s)
        await self._app(scope, body.receive, send)


class _Body:
    def __init__(self, receive: Receive, patience_s: float) -> None:
        self._receive = receive
        self._left_s = patience_s
        self._most_s = patience_s
        self._ended = False

    async def receive(self) -> Message:
        if self._ended:  # what is waited for now is the client's leaving
            return await self._receive()
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._left_s):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow(
                "the body did not come in time",
                field="body",
                hint=f"send at least {LEAST_BYTES_A_S} bytes a second",
            ) from None
        self._ended = not message.get("more_body", False)
        earned_s = len(message.get("body", b"")) / LEAST_BYTES_A_S
        self._left_s = min(self._most_s, self._left_s - (clock() - began) + earned_s)
        return message
