"""A page on the shelf, as one reader has it open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from tocsin.broker.server.pages.shelf import Body
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.errors import Unavailable


class Whole:
    """What comes from a disk may have changed since it was put there: `lost` is called then."""

    def __init__(self, body: Body, lost: Callable[[], None]) -> None:
        self._body = body
        self._lost = lost

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        while start < stop:
            try:
                piece = self._body.read(start, min(BLOCK_BYTES, stop - start))
            except Unavailable:
                self._lost()
                raise
            start += len(piece)
            yield piece
