"""The parts of a message that came in several WebSocket frames, put together within a limit."""

from __future__ import annotations

from picows import WSFrame

from tocsin.errors import TooLarge

LEAST_BYTES = 64


class Fragments:
    __slots__ = ("_limit_bytes", "_parts", "_size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def add(self, frame: WSFrame) -> bytes | None:
        """The message that this frame ends; None: more of it is to come."""
        data: bytes = frame.get_payload_as_bytes()
        if frame.fin and not self._parts:
            return data
        self._parts.append(data)
        self._size_bytes += max(len(data), LEAST_BYTES)  # an empty part lies in memory too
        if self._size_bytes > self._limit_bytes:
            self._end()
            raise TooLarge(f"a message of more than {self._limit_bytes} bytes")
        return self._end() if frame.fin else None

    def _end(self) -> bytes:
        data = b"".join(self._parts)
        self._parts, self._size_bytes = [], 0
        return data
