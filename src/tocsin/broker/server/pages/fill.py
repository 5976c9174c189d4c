"""A page on its way from the cluster, and those who read it meanwhile.

It comes as fast as the cluster gives it, whoever reads: the slowest reader slows nobody. Its last
byte is held back until its hash is known to be right, so that nobody ever has a whole wrong page.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

from tocsin.broker.server.pages.shelf import Growing
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.errors import TocsinError, Unavailable


class Fill:
    def __init__(self, page: str, body: Growing) -> None:
        self.page = page
        self.size_bytes: int | None = None  # None: the cluster has not answered yet
        self.whole = False
        self.unwanted = False  # nobody reads it, or ever will
        self.task: asyncio.Task[None]  # that fetches it
        self._body = body
        self._hash = hashlib.sha256()
        self._filled = 0
        self._error: TocsinError | None = None
        self._news = asyncio.Event()
        self._open = True

    @property
    def body(self) -> Growing:
        return self._body

    def begin(self, size_bytes: int) -> None:
        self._body.reserve(size_bytes)  # before anybody is promised so many
        self.size_bytes = size_bytes

    def add(self, data: bytes) -> None:
        self._body.write(data)
        self._hash.update(data)
        self._filled += len(data)
        self._tell()

    def end(self) -> None:
        """All has come; raises if it is not what it is called."""
        if self._filled != self.size_bytes or self._hash.hexdigest() != self.page:
            raise Unavailable(
                f"attachment {self.page} came damaged from the cluster", hint="ask again"
            )
        self.whole = True
        self._tell()

    def fail(self, error: TocsinError) -> TocsinError:
        """What those who read it hear: the first reason counts."""
        self._error = self._error or error
        self._tell()
        return self._error

    def close(self) -> None:
        """What is not on a shelf is gone."""
        if self._open:
            self._open = False
            self._body.close()

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        assert self.size_bytes is not None
        while start < stop:
            there = self._filled if self.whole else min(self._filled, self.size_bytes - 1)
            if start >= there:
                await self._more()
                continue
            piece = self._body.read(start, min(BLOCK_BYTES, min(there, stop) - start))
            start += len(piece)
            yield piece

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        await self._news.wait()
        if self._error is not None:
            raise self._error

    def _tell(self) -> None:
        """Wake all who wait now; who comes later waits for the next."""
        news, self._news = self._news, asyncio.Event()
        news.set()
