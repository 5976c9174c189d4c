"""What a broker says to a client, encoded once however many hear it, by WebSocket or SSE."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tocsin.protocol.client import encode_batch
from tocsin.service.web import sse_event

TEXT = 0x81  # a final text frame


def text_frame(payload: bytes) -> bytes:
    """A whole unmasked WebSocket text frame. A server's frames are not masked, so the same bytes
    serve every client."""
    size_bytes = len(payload)
    if size_bytes < 126:
        return struct.pack("!BB", TEXT, size_bytes) + payload
    if size_bytes < 1 << 16:
        return struct.pack("!BBH", TEXT, 126, size_bytes) + payload
    return struct.pack("!BBQ", TEXT, 127, size_bytes) + payload


class Message:
    """One JSON text with its two envelopes, each made when first needed and then shared."""

    __slots__ = ("_event", "_frame", "json", "name")

    def __init__(self, name: str, json: bytes) -> None:
        self.name = name  # the SSE event's name
        self.json = json
        self._frame: bytes | None = None
        self._event: bytes | None = None

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            self._frame = text_frame(self.json)
        return self._frame

    @property
    def event(self) -> bytes:
        if self._event is None:
            self._event = sse_event(self.name, self.json)
        return self._event


class SharedWrites:
    """The bytes of several messages. Most connections that get several at one moment get the same
    ones, so these are put together once."""

    def __init__(self) -> None:
        self._newest: dict[bool, tuple[list[Message], bytes]] = {}

    def of(self, messages: list[Message], *, batch: bool) -> bytes:
        """`batch`: as one frame, not one for each."""
        if len(messages) == 1:
            return messages[0].frame
        known = self._newest.get(batch)
        if known is not None and known[0] == messages:
            return known[1]
        joined = _batch_frame(messages) if batch else _frames(messages)
        self._newest[batch] = messages, joined
        return joined

    def forget(self) -> None:
        self._newest.clear()


def _batch_frame(messages: Iterable[Message]) -> bytes:
    return text_frame(encode_batch(message.json for message in messages))


def _frames(messages: Iterable[Message]) -> bytes:
    return b"".join([message.frame for message in messages])
