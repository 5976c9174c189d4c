"""A page on the shelf, as one reader has it open."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable

from tocsin.broker.server.pages.fill import PIECE_BYTES
from tocsin.broker.server.pages.shelf import Body
from tocsin.errors import Unavailable


class Whole:
    """What comes from a disk may have changed since it was put there. Read whole it is checked: the
    last piece only comes if all of it is right. `lost` is called if it is not."""

    def __init__(self, page: str, size_bytes: int, body: Body, lost: Callable[[], None]) -> None:
        self._page = page
        self._size_bytes = size_bytes
        self._body = body
        self._lost = lost

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        all_of_it = (start, stop) == (0, self._size_bytes)
        check = hashlib.sha256() if all_of_it and not self._body.sure else None
        while start < stop:
            piece = self._body.read(start, min(PIECE_BYTES, stop - start))
            start += len(piece)
            if check is not None:
                check.update(piece)
            wrong = check is not None and start == stop and check.hexdigest() != self._page
            if not piece or wrong:
                self._lost()
                raise Unavailable(f"page {self._page} is damaged, and dropped", hint="ask again")
            yield piece
