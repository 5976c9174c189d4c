"""Server-sent events: the same messages as a WebSocket, one way, for browsers and curl."""

from __future__ import annotations

import asyncio
import time

from tocsin.broker.server.encoding import encode
from tocsin.broker.server.message import Message
from tocsin.errors import TocsinError
from tocsin.protocol.client import UNAUTHENTICATED, Closing
from tocsin.service.streaming import StreamResponse
from tocsin.service.tokens import Identity
from tocsin.service.web import sse_event

KEEP_ALIVE_S = 15.0  # proxies close silent streams


class EventLine:
    """One client's stream. Holds a bounded number of bytes: signals conflate, results give way."""

    batch = False  # an event is one frame

    def __init__(self, identity: Identity, token: str, inline: bool, most_bytes: int) -> None:
        self.identity = identity
        self.token = token
        self.inline = inline
        self.number = 0
        self.open = True
        self._most_bytes = most_bytes
        self._out: list[bytes] = []
        self.unsent_bytes = 0  # of what waits here; signals conflate and do not count
        self._signals: dict[int, Message] = {}
        self._wake = asyncio.Event()
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def welcome(self, message: Message) -> None:
        self.send(message)
        if not self.begun.done():
            self.begun.set_result(None)

    def refuse(self, error: TocsinError) -> None:
        if not self.begun.done():
            self.begun.set_exception(error)

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
            self._out.append(sse_event("closing", encode(Closing(code, reason))))
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


class EventResponse(StreamResponse):
    media_type = "text/event-stream"
