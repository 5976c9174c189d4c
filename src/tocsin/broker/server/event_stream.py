"""Server-sent events: the same messages as a WebSocket, one way, for browsers and curl."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.broker.server.encoding import encode
from tocsin.broker.server.message import Message
from tocsin.client.frames import UNAUTHENTICATED
from tocsin.service.serving import ABORT
from tocsin.service.tokens import Identity
from tocsin.service.web import sse_event

KEEP_ALIVE_S = 15.0  # proxies close silent streams
PIECE_BYTES = 64 * 1024  # of which each must be taken before a client counts as stalled


class EventLine:
    """One client's stream. Holds a bounded number of bytes: signals conflate, results give way."""

    def __init__(self, identity: Identity, inline: bool, most_bytes: int) -> None:
        self.identity = identity
        self.inline = inline
        self.number = 0
        self.open = True
        self._most_bytes = most_bytes
        self._out: list[bytes] = []
        self.unsent_bytes = 0  # of what waits here; signals conflate and do not count
        self._signals: dict[int, Message] = {}
        self._wake = asyncio.Event()

    def send(self, message: Message) -> None:
        self._out.append(message.event)
        self.unsent_bytes += len(message.event)
        self._wake.set()

    def signal(self, backend: int, message: Message) -> None:
        self._signals[backend] = message
        self._wake.set()

    def results(self, backend: int, message: Message, signal: Message) -> None:
        if self.unsent_bytes + len(message.event) > self._most_bytes:
            self.signal(backend, signal)
        else:
            self.send(message)

    def close(self, code: int, reason: str) -> None:
        if self.open:
            self.open = False
            self._out.append(sse_event("closing", encode({"code": code, "reason": reason})))
            self._wake.set()

    async def next(self) -> bytes:
        """Everything queued, as soon as there is something; empty: the stream has ended."""
        if not self._out and not self._signals and self.open:
            self._wake.clear()
            left_s = self.identity.expires_at - time.time()
            try:
                await asyncio.wait_for(self._wake.wait(), max(0.0, min(KEEP_ALIVE_S, left_s)))
            except TimeoutError:
                if time.time() < self.identity.expires_at:
                    return b": still here\n\n"
                self.close(UNAUTHENTICATED, "the token has expired")
        out, self._out, self.unsent_bytes = self._out, [], 0
        out.extend(message.event for message in self._signals.values())
        self._signals.clear()
        return b"".join(out)


class Stream(Protocol):
    open: bool

    async def next(self) -> bytes: ...


class EventResponse(Response):
    """Streams a line until it closes, the client leaves, or the client stops reading."""

    media_type = "text/event-stream"

    def __init__(self, line: Stream, stall_s: float, gone: Callable[[bool], None]) -> None:
        super().__init__(media_type=self.media_type, headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self._line = line
        self._stall_s = stall_s
        self._gone = gone  # told whether the client had stalled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.create_task(_disconnected(receive))
        stalled = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not left.done():
                chunk = asyncio.create_task(self._line.next())
                await asyncio.wait({chunk, left}, return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    chunk.cancel()
                    break
                body = chunk.result()
                for start in range(0, len(body), PIECE_BYTES):  # a slow reader is not a stalled one
                    piece = body[start : start + PIECE_BYTES]
                    await asyncio.wait_for(send(_part(piece)), self._stall_s)
                if not body and not self._line.open:
                    await asyncio.wait_for(send(_part(b"", more=False)), self._stall_s)
                    break
        except TimeoutError:
            stalled = True
            scope["extensions"][ABORT]()
            await left
        finally:
            self._line.open = False
            self._gone(stalled)
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
