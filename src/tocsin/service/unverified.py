"""Bodies of which nobody knows yet who sent them, held in a bounded sum of memory.

A signature is known to be good only when the whole body is there. When bodies that are on their way
together grow too large, the one that began first ends: real ones take milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tocsin.errors import TooLarge, Unavailable

MOST_BYTES = 8 * 1024 * 1024


class Unverified:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.held_bytes = 0
        self._most_bytes = most_bytes
        self._bodies: dict[_Body, None] = {}  # in the order in which they began

    async def read(self, parts: AsyncIterator[bytes], limit_bytes: int) -> bytes:
        """A whole body. Its bytes count until it is whole; who checks it does not wait."""
        body = _Body()
        self._bodies[body] = None
        try:
            async with asyncio.timeout(None) as body.patience:
                async for part in parts:
                    if body.size_bytes + len(part) > limit_bytes:
                        raise TooLarge(f"the body is larger than {limit_bytes} bytes", field="body")
                    self._hold(body, part)
        except TimeoutError:
            if not body.ended:
                raise
            raise Unavailable(
                "too much that nobody has vouched for is on its way", hint="send it again"
            ) from None
        finally:
            self._bodies.pop(body, None)
            self._let_go(body)
        return b"".join(body.parts)

    def _hold(self, body: _Body, part: bytes) -> None:
        body.parts.append(part)
        body.size_bytes += len(part)
        self.held_bytes += len(part)
        while self.held_bytes > self._most_bytes and self._bodies:
            oldest = next(iter(self._bodies))
            del self._bodies[oldest]
            self._let_go(oldest)
            oldest.end()

    def _let_go(self, body: _Body) -> None:
        if not body.ended:
            self.held_bytes -= body.size_bytes
            body.size_bytes = 0


class _Body:
    patience: asyncio.Timeout

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size_bytes = 0
        self.ended = False

    def end(self) -> None:
        """From outside, while somebody waits for its next part."""
        self.ended = True
        self.parts.clear()
        self.patience.reschedule(0.0)
