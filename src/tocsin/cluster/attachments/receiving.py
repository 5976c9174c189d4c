"""One attachment on its way in: written by threads in large pieces, no longer than it may be."""

from __future__ import annotations

import asyncio

from tocsin.errors import InvalidInput, TooLarge
from tocsin.storage.content import Incoming

GATHER_BYTES = 1024 * 1024  # so many are written by one thread at once


class Receiving:
    def __init__(self, incoming: Incoming, limit_bytes: int, field: str = "body") -> None:
        self.incoming = incoming
        self._limit_bytes = limit_bytes
        self._field = field
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._total = 0

    async def add(self, data: bytes) -> None:
        self._total += len(data)
        if self._total > self._limit_bytes:
            raise too_large(self._limit_bytes, self._field)
        self._gathered.append(data)
        self._waiting += len(data)
        if self._waiting >= GATHER_BYTES:
            await self.flush()

    async def flush(self) -> None:
        gathered, self._gathered, self._waiting = self._gathered, [], 0
        if gathered:
            await asyncio.to_thread(self.incoming.write, b"".join(gathered))

    async def discard(self) -> None:
        """Whatever was not committed is gone then."""
        await asyncio.shield(asyncio.to_thread(self.incoming.discard))


def too_large(limit_bytes: int, field: str) -> TooLarge:
    return TooLarge(
        f"an attachment has at most {limit_bytes} bytes",
        field=field,
        hint="make it smaller, or raise attachment_limit_bytes",
    )


def cut_short() -> InvalidInput:
    return InvalidInput("the upload was cut short", field="body", hint="send it again, whole")
