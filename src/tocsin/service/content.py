"""Answers that carry immutable content: ranges, conditions, and readers that stop reading.

The same for whoever serves it: the cluster from its content store, a broker from its page cache.
Content is named by its hash, which is its entity tag as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.errors import InvalidInput, TocsinError
from tocsin.service.openapi import Media
from tocsin.service.serving import ABORT
from tocsin.service.streaming import disconnected
from tocsin.service.web import error_response

log = structlog.get_logger()

PLAIN_TYPE = "application/octet-stream"
ANY_BYTES = Media("*/*")
"""An attachment, as routes declare it."""
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")
_HEADERS = {
    "accept-ranges": "bytes",
    "cache-control": "private, max-age=31536000, immutable",
    # Uploaded content is shown, not run.
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")

Read = Callable[[int, int], AsyncIterator[bytes]]
"""The bytes in [start, stop), in pieces."""


class Span(NamedTuple):
    start: int
    stop: int


def range_of(header: str | None, size_bytes: int) -> Span | None:
    """The one range that was asked for. None: all of it, which is also the answer to several
    ranges and to what is no range; a range with no byte in it raises."""
    match = _RANGE.fullmatch((header or "").replace(" ", ""))
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, stop = max(0, size_bytes - int(match[2])), size_bytes
    else:
        start = int(match[1])
        stop = size_bytes if match[2] == "" else min(size_bytes, int(match[2]) + 1)
        if match[2] != "" and int(match[2]) < start:
            return None
    if start >= stop:
        raise ValueError(f"there are {size_bytes} bytes")
    return Span(start, stop)


def begin_of(header: str | None, size_bytes: int) -> int:
    """The first byte that an answer to this range needs."""
    try:
        return (range_of(header, size_bytes) or Span(0, size_bytes)).start
    except ValueError:
        return 0


def names_tag(header: str | None, tag: str) -> bool:
    """Whether If-None-Match knows this version."""
    tags = [tag_text.strip().removeprefix("W/") for tag_text in (header or "").split(",")]
    return tag in tags or "*" in tags


def media_type(given: str | None) -> str:
    """The media type that the request names: stored bytes have none, records give it."""
    if given is None:
        return PLAIN_TYPE
    if not _MEDIA_TYPE.fullmatch(given) or len(given) > 161:
        raise InvalidInput("that is no media type", field="type", hint="such as image/png")
    return given


def content_response(
    request: Request,
    id: str,
    size_bytes: int,
    read: Read,
    stall_s: float,
    gone: Callable[[bool], None] = lambda stalled: None,
) -> Response:
    """The answer to a GET or HEAD of this content. `gone` is called at its end, with whether the
    client had stopped reading."""
    tag = f'"{id}"'
    headers = {"etag": tag, **_HEADERS}
    if names_tag(request.headers.get("if-none-match"), tag):
        gone(False)
        return Response(status_code=304, headers=headers)
    given = request.headers.get("range")
    if request.headers.get("if-range", tag) != tag:
        given = None
    try:
        span = range_of(given, size_bytes)
    except ValueError as error:
        gone(False)
        return _no_such_range(error, size_bytes)
    status = 200 if span is None else 206
    if span is None:
        span = Span(0, size_bytes)
    else:
        headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size_bytes}"
    headers["content-length"] = str(span.stop - span.start)
    headers["content-type"] = media_type(request.query_params.get("type"))
    if request.method == "HEAD":
        gone(False)
        return Response(status_code=status, headers=headers)
    return ContentResponse(status, headers, read(span.start, span.stop), stall_s, gone)


def _no_such_range(error: ValueError, size_bytes: int) -> Response:
    response = error_response(InvalidInput(f"no byte is in that range: {error}", field="range"))
    response.status_code = 416
    response.headers["content-range"] = f"bytes */{size_bytes}"
    return response


class ContentResponse(Response):
    """Sends pieces to a client that keeps reading. If pieces are missing, it cuts the connection:
    a part never looks like the whole."""

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        pieces: AsyncIterator[bytes],
        stall_s: float,
        gone: Callable[[bool], None],
    ) -> None:
        super().__init__(status_code=status, headers=headers)
        self._pieces = pieces
        self._stall_s = stall_s
        self._gone = gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.create_task(disconnected(receive))
        stalled = False
        try:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            await self._send_pieces(send, left)
            if not left.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            stalled = not left.done()
            scope["extensions"][ABORT]()
        except TocsinError as error:
            log.warning("content could not be sent whole", reason=str(error))
            scope["extensions"][ABORT]()
        finally:
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await left
            close = getattr(self._pieces, "aclose", None)
            if close is not None:
                await close()
            self._gone(stalled)

    async def _send_pieces(self, send: Send, left: asyncio.Task[None]) -> None:
        """Until the client has left; TimeoutError if it stalls."""
        async with asyncio.timeout(None) as patience:

            def hung_up(_: asyncio.Task[None]) -> None:
                if not patience.expired():
                    patience.reschedule(0.0)  # no client waits for what comes next

            left.add_done_callback(hung_up)
            try:
                async for piece in self._pieces:
                    patience.reschedule(asyncio.get_running_loop().time() + self._stall_s)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    patience.reschedule(None)
                    if left.done():
                        return
            finally:
                left.remove_done_callback(hung_up)
