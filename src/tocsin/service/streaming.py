"""Answers without an end: what a stream gives, as it comes, to a client that must keep reading."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.service.serving import ABORT

PIECE_BYTES = 64 * 1024  # of which each must be taken before a client counts as stalled


class Stream(Protocol):
    open: bool

    async def next(self) -> bytes:
        """What there is, as soon as there is something; empty: the stream has ended."""


class StreamResponse(Response):
    """Sends a stream until it closes, the client leaves, or the client stops reading."""

    media_type = "application/x-ndjson"

    def __init__(self, stream: Stream, stall_s: float, gone: Callable[[bool], None]) -> None:
        super().__init__(media_type=self.media_type, headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._stream = stream
        self._stall_s = stall_s
        self._gone = gone  # told whether the client had stalled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.create_task(disconnected(receive))
        stalled = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not left.done():
                chunk = asyncio.create_task(self._stream.next())
                await asyncio.wait({chunk, left}, return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    break
                body = chunk.result()
                for start in range(0, len(body), PIECE_BYTES):  # a slow reader is not a stalled one
                    piece = body[start : start + PIECE_BYTES]
                    await asyncio.wait_for(send(_part(piece)), self._stall_s)
                if not body and not self._stream.open:
                    await asyncio.wait_for(send(_part(b"", more=False)), self._stall_s)
                    break
        except TimeoutError:
            stalled = True
            scope["extensions"][ABORT]()
            await left
        finally:
            self._stream.open = False
            self._gone(stalled)
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
