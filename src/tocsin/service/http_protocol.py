"""Uvicorn's protocol, bounded: what a head may be, and what a connection is doing at the moment.

Must not know routes or tokens; what an answer wants of its connection it finds in the extensions of
its scope.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.service.connections import Connection

ABORT = "tocsin.abort"  # an extension in a request's scope: cut the connection, now
KNOWN = "tocsin.known"  # whoever is there has shown who they are
WHOLE = "tocsin.whole"  # whether the request's body has come whole
PATIENCE_S = "tocsin.patience_s"  # how long its body may pause

HEAD_BYTES = 32 * 1024
MOST_HEADERS = 100
MOST_PIPELINED = 16
GOODBYE_S = 0.2

# Strangers send what they like; a line for each would fill the log. The metric counts them.
_QUIET = logging.getLogger("uvicorn.error.requests")
_QUIET.setLevel(logging.ERROR)


class Refused(Exception):
    """The request is refused before it is understood."""


class Protocol(HttpToolsProtocol):
    def __init__(self, connection: Connection, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _QUIET
        self._connection = connection
        self._in_head = True  # or before one
        self._head_began = False
        self._head_bytes = 0
        self._head_alone = True  # what came at once was nothing but a part of a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection.cut = transport.abort
        self._connection.unsent_bytes = transport.get_write_buffer_size

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.connections.gone(self._connection)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_alone = self._in_head
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._head_alone else 0
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._connection.connections.count("large_head")
            self.send_400_response(f"The head of a request has at most {HEAD_BYTES} bytes.")

    def send_400_response(self, msg: str) -> None:
        self._connection.connections.count("malformed")
        super().send_400_response(msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_began = True
        if self.cycle is None or self.cycle.response_complete:
            self._connection.head_began()

    def on_header(self, name: bytes, value: bytes) -> None:  # of trailers, too
        if len(self.headers) >= MOST_HEADERS:
            raise Refused("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise Refused("too many requests at once")
        self._in_head = self._head_began = self._head_alone = False
        self._connection.head_came()
        super().on_headers_complete()
        cycle = self.cycle
        extensions: dict[str, Any] = {
            ABORT: self.transport.abort,
            KNOWN: self._connection.known,
            WHOLE: lambda: not cycle.more_body,
            PATIENCE_S: self._connection.connections.limits.head_s,
        }
        self.scope["extensions"] = extensions

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._connection.answered(next_began=self._head_began)

    def shutdown(self) -> None:
        """Over TLS closing waits until the client says good-bye as well. One that keeps its
        connection for later does not, and would hold us up."""
        super().shutdown()
        if self.scheme == "https" and self.transport.is_closing():
            self.loop.call_later(GOODBYE_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connection.connections.unread(self._connection)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._connection.connections.read(self._connection)
