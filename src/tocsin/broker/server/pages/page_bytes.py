"""`PageBytes`: the bytes of a broker's pages: fetched, kept, deleted and read. Decides nothing.

What is fetched, kept and deleted is the machine's decision (`broker/machine/pages/`), carried out
here; what came of it goes back as events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from tocsin import durable
from tocsin.broker.machine.effects import (
    DropPage,
    Effect,
    EndFetch,
    FetchPage,
    KeepPage,
    ServePage,
)
from tocsin.broker.machine.pages import Pages
from tocsin.broker.server.pages.fill import Fill
from tocsin.broker.server.pages.shelf import Shelf
from tocsin.broker.server.pages.whole import Whole
from tocsin.errors import TocsinError, Unavailable
from tocsin.policies.page import parse_page_policy

log = structlog.get_logger()


class Coming(NamedTuple):
    """An attachment that the cluster has begun to send."""

    size_bytes: int
    pieces: AsyncIterator[bytes]


class Source(Protocol):
    def attachment(self, id: str) -> AbstractAsyncContextManager[Coming]: ...
    async def attachment_size(self, id: str) -> int: ...


class Reading(NamedTuple):
    """A page for one reader, who says when it is done."""

    size_bytes: int
    pieces: Callable[[int, int], AsyncIterator[bytes]]
    done: Callable[[], None]


class _Reader:
    """Who waits for a page. `start`: where it begins to read, of so many bytes."""

    def __init__(self, notification: bool, start: Callable[[int], int]) -> None:
        self.notification = notification
        self.start = start
        self.reading: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()

    def answered(self, answer: ServePage) -> None:
        raise AssertionError("a page is served with its bytes")

    def failed(self, error: TocsinError) -> None:
        if not self.reading.done():
            self.reading.set_exception(error)


class PageBytes:
    def __init__(
        self,
        pages: Pages,
        shelf: Shelf,
        source: Source,
        spawn: Callable[..., asyncio.Task[None]],
        perform: Callable[[list[Effect]], None],
    ) -> None:
        self.pages = pages
        self.served_bytes: int = 0
        self.fetched_bytes: int = 0
        self._shelf = shelf
        self._source = source
        self._spawn = spawn
        self._perform = perform
        self._fills: dict[int, Fill] = {}  # by the machine's number of the fetch
        self.performers: dict[type, Callable[[Any], None]] = {
            ServePage: self._serve,
            FetchPage: self._fetch,
            EndFetch: self._end,
            KeepPage: self._keep,
            DropPage: self._drop,
        }

    @property
    def saved_bytes(self) -> int:
        """What clients got and the cluster did not have to send. Pushes may cost more than that."""
        return self.served_bytes - self.fetched_bytes

    async def start(self) -> None:
        """Take what an earlier process left."""
        left = await asyncio.to_thread(self._shelf.whole_pages)
        self._perform(self.pages.begin(left))
        if self.pages.kept:
            log.info("pages of before are here", pages=len(self.pages.kept))

    def set_policy(self, text: str | None, capacity_bytes: int | None = None) -> None:
        """None: as it is."""
        policy = self.pages.cache.policy if text is None else parse_page_policy(text)
        self._perform(self.pages.set_policy(policy, capacity_bytes))

    # Readers

    async def open(self, page: str, notification: bool, start: Callable[[int], int]) -> Reading:
        """Somebody reads it, from where `start` makes of its size. NotFound or Unavailable if it
        cannot be had."""
        reader = _Reader(notification, start)
        self._perform(self.pages.asked(reader, page, notification))
        try:
            return await reader.reading
        except BaseException:
            self._left(reader)
            raise

    def _left(self, reader: _Reader) -> None:
        self._perform(self.pages.left(reader))

    async def size_bytes(self, page: str) -> int:
        """Without fetching it."""
        known = self.pages.kept.get(page)
        return await self._source.attachment_size(page) if known is None else known

    def _serve(self, effect: ServePage) -> None:
        reader, page, size_bytes = effect.request, effect.page, effect.size_bytes
        assert isinstance(reader, _Reader)
        if reader.reading.done():  # it left
            return
        if effect.fetch is not None:
            pieces = self._counted(self._fills[effect.fetch])
            reader.reading.set_result(Reading(size_bytes, pieces, partial(self._left, reader)))
            return
        body = self._shelf.open(page, reader.start(size_bytes))
        if body is None:
            self._lost(page)
            self._perform(self.pages.asked(reader, page, reader.notification))
        else:
            whole = Whole(body, lambda: self._lost(page))
            reader.reading.set_result(Reading(size_bytes, self._counted(whole), body.close))

    def _counted(self, source: Fill | Whole) -> Callable[[int, int], AsyncIterator[bytes]]:
        async def pieces(start: int, stop: int) -> AsyncIterator[bytes]:
            async for piece in source.pieces(start, stop):
                self.served_bytes += len(piece)
                yield piece

        return pieces

    # Fetches

    def _fetch(self, effect: FetchPage) -> None:
        number = effect.fetch
        try:
            body = self._shelf.new()
        except OSError as error:
            self._perform(self.pages.failed(number, _not_written(effect.page, error)))
            return
        fill = self._fills[number] = Fill(effect.page, body)
        fill.task = self._spawn(self._fill(number, fill))
        fill.task.add_done_callback(lambda _: self._ended(number, fill))

    async def _fill(self, number: int, fill: Fill) -> None:
        try:
            async with self._source.attachment(fill.page) as coming:
                self._check_size(fill.page, coming.size_bytes)
                fill.begin(coming.size_bytes)
                self._perform(self.pages.begun(number, coming.size_bytes))
                async for piece in coming.pieces:
                    self.fetched_bytes += len(piece)
                    fill.add(piece)
            fill.end()
        except TocsinError as error:
            log.info("an attachment could not be fetched", page=fill.page, reason=str(error))
            fill.fail(error)
        except OSError as error:
            fill.fail(_not_written(fill.page, error))
        else:  # before anybody who read the last byte can leave
            self._perform(self.pages.fetched(number))

    def _check_size(self, page: str, size_bytes: int) -> None:
        if self.pages.cache.size_of(page) not in (None, max(1, size_bytes)):
            log.warning("a result told a wrong size of an attachment", page=page)

    def _ended(self, number: int, fill: Fill) -> None:
        """Its task has ended, however."""
        if not fill.whole:
            error = fill.fail(Unavailable("the fetch was given up", hint="ask again"))
            if not fill.task.cancelled():  # by the machine, or because this broker stops
                self._perform(self.pages.failed(number, error))
        if fill.unwanted:
            fill.close()

    def _end(self, effect: EndFetch) -> None:
        fill = self._fills.pop(effect.fetch, None)
        if fill is None:  # it never began
            return
        fill.unwanted = True
        if fill.whole or fill.task.done():
            fill.close()
        else:
            fill.task.cancel()

    # What is kept

    def _keep(self, effect: KeepPage) -> None:
        try:
            self._shelf.put(effect.page, self._fills[effect.fetch].body)
        except OSError as error:
            log.error("a page could not be kept", page=effect.page, reason=str(error))
            self._perform(self.pages.damaged(effect.page))

    def _drop(self, effect: DropPage) -> None:
        try:
            self._shelf.drop(effect.page)
        except OSError as error:
            log.error("a page could not be deleted", page=effect.page, reason=str(error))

    def _lost(self, page: str) -> None:
        log.warning("a page is damaged or gone, and dropped", page=page)
        self._perform(self.pages.damaged(page))


def _not_written(page: str, error: OSError) -> Unavailable:
    log.error("a page could not be written", page=page, reason=str(error))
    return durable.not_written("this broker's page cache", error, "ask again")
