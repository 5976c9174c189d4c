"""`Pages`: a broker's page cache live. What it keeps is the page cache's decision; here the bytes
follow: fetched once for all who ask, pushed in the background, dropped when they are evicted.

At any moment a page that the cache holds is on the shelf, on its way, or waits to be fetched.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from tocsin.broker.effects import NewPages
from tocsin.broker.server.pages.fill import PIECE_BYTES, Fill
from tocsin.broker.server.pages.shelf import Body, Shelf
from tocsin.caching.page_cache import PageCache, PageCounters, Step
from tocsin.errors import TocsinError, Unavailable
from tocsin.model import Attachment, is_attachment_id
from tocsin.policies.page import parse_page_policy

log = structlog.get_logger()

GATHER_S = 0.05  # results of several backend subscriptions that mention a page come close together
PUSHES_AT_ONCE = 4
FETCHES_AT_ONCE = 32  # those that somebody waits for
REMEMBERED = 50_000  # pages and stories of which something is known, though they are not here


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


class Pages:
    def __init__(
        self,
        policy: str,
        capacity_bytes: int,
        shelf: Shelf,
        source: Source,
        spawn: Callable[..., asyncio.Task[None]],
    ) -> None:
        self.cache: PageCache[str] = PageCache(parse_page_policy(policy), capacity_bytes)
        self.served_bytes: int = 0
        self.fetched_bytes: int = 0
        self._shelf = shelf
        self._source = source
        self._spawn = spawn
        self._sizes: dict[str, int] = {}  # of whole pages
        self._fills: dict[str, tuple[Fill, asyncio.Task[None]]] = {}
        self._waiting: OrderedDict[str, None] = OrderedDict()  # pushed, to be fetched
        self._pushing = 0
        self._fetching = asyncio.Semaphore(FETCHES_AT_ONCE)
        self._matched: OrderedDict[str, int] = OrderedDict()  # page -> subscriptions so far
        self._stories: OrderedDict[tuple[Any, ...], str] = OrderedDict()  # its newest version
        self._news: dict[str, int] = {}  # pages to be published, with their sizes

    @property
    def saved_bytes(self) -> int:
        """What clients got and the cluster did not have to send. Pushes may cost more than that."""
        return self.served_bytes - self.fetched_bytes

    @property
    def filling(self) -> int:
        return len(self._fills)

    async def start(self) -> None:
        """Take what an earlier process left, as if it were asked for in the order it came."""
        for page, size_bytes in await asyncio.to_thread(self._shelf.found):
            self._sizes[page] = size_bytes
            if self._follow(self.cache.request(page, size_bytes, False)) == "miss-not-stored":
                self._forget(page)
        if self._sizes:
            log.info("pages of before are here", pages=len(self._sizes))
        self.cache.counters = PageCounters()

    def set_policy(self, policy: str, capacity_bytes: int | None = None) -> None:
        for page, _ in self.cache.set_policy(parse_page_policy(policy), capacity_bytes):
            self._forget(page)

    # Pushes

    def mentioned(self, told: NewPages) -> None:
        """New results of a backend subscription, with attachments in some of their fields."""
        for result in told.results:
            record = msgspec.json.decode(result.payload)
            for field in told.attachments:
                try:
                    found = msgspec.convert(record.get(field), Attachment | None)
                except msgspec.ValidationError:
                    continue
                if found is not None and is_attachment_id(found.id):
                    self._note(found, told.subscriptions)
                    key = [record.get(name) for name in told.keys]
                    if key and None not in key:
                        self._supersede((told.channel, field, msgspec.json.encode(key)), found.id)

    def _note(self, found: Attachment, subscriptions: int) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(GATHER_S, self._publish)
        self._news[found.id] = found.size
        self._matched[found.id] = subscriptions
        if len(self._matched) > REMEMBERED:
            page, _ = self._matched.popitem(last=False)
            if page not in self.cache:
                self.cache.remove(page)

    def _supersede(self, story: tuple[Any, ...], page: str) -> None:
        before = self._stories.pop(story, page)
        self._stories[story] = page
        if before != page:
            self.cache.superseded(before)
        if len(self._stories) > REMEMBERED:
            self._stories.popitem(last=False)

    def _publish(self) -> None:
        news, self._news = self._news, {}
        for page, size_bytes in news.items():
            step = self.cache.publish(page, size_bytes, self._matched.get(page, 1))
            if self._follow(step) == "stored" and page not in self._fills:
                self._waiting[page] = None
        self._push_on()

    def _push_on(self) -> None:
        while self._waiting and self._pushing < PUSHES_AT_ONCE:
            page, _ = self._waiting.popitem(last=False)
            self._pushing += 1
            _, task = self._start_fill(page)
            task.add_done_callback(self._pushed)

    def _pushed(self, _: asyncio.Task[None]) -> None:
        self._pushing -= 1
        self._push_on()

    # Requests

    async def open(self, page: str, notification: bool) -> Reading:
        """Somebody reads it. NotFound or Unavailable if it cannot be had."""
        if page in self._sizes:
            size_bytes = self._sizes[page]
            body = self._shelf.open(page)
            if body is not None:
                self._follow(self.cache.request(page, size_bytes, notification))
                return Reading(size_bytes, self._counted(_Whole(self, page, body)), body.close)
            self._lost(page)
        self._waiting.pop(page, None)
        fill, _ = self._fills.get(page) or self._start_fill(page)
        fill.readers += 1
        try:
            size_bytes = await fill.begun()
            self._follow(self.cache.request(page, size_bytes, notification))
        except BaseException:
            self._left(fill)
            raise
        return Reading(size_bytes, self._counted(fill), lambda: self._left(fill))

    async def size_bytes(self, page: str) -> int:
        """Without fetching it."""
        known = self._sizes.get(page)
        return await self._source.attachment_size(page) if known is None else known

    def _counted(self, of: Fill | _Whole) -> Callable[[int, int], AsyncIterator[bytes]]:
        async def pieces(start: int, stop: int) -> AsyncIterator[bytes]:
            async for piece in of.pieces(start, stop):
                self.served_bytes += len(piece)
                yield piece

        return pieces

    def _left(self, fill: Fill) -> None:
        fill.readers -= 1
        if fill.readers:
            return
        known = self._fills.get(fill.page)
        if known is None or known[0] is not fill:
            fill.close()
        elif fill.page not in self.cache:
            known[1].cancel()  # nobody wants it any more

    # Bytes

    def _start_fill(self, page: str) -> tuple[Fill, asyncio.Task[None]]:
        fill = Fill(page, self._shelf.new())
        task = self._spawn(self._fill(fill))
        self._fills[page] = fill, task
        task.add_done_callback(lambda _: self._filled(fill))
        return self._fills[page]

    async def _fill(self, fill: Fill) -> None:
        try:
            async with self._fetching, self._source.attachment(fill.page) as coming:
                fill.begin(coming.size_bytes)
                async for piece in coming.pieces:
                    self.fetched_bytes += len(piece)
                    fill.add(piece)
            fill.end()
        except TocsinError as error:
            log.info("an attachment could not be fetched", page=fill.page, reason=str(error))
            fill.fail(error)
        except OSError as error:
            log.error("a page could not be written", page=fill.page, reason=str(error))
            fill.fail(Unavailable("this broker's page cache cannot be written", field="page_cache"))

    def _filled(self, fill: Fill) -> None:
        """Its task has ended, however."""
        del self._fills[fill.page]
        if not fill.whole:
            fill.fail(Unavailable("the fetch was given up", hint="ask again"))
            self.cache.remove(fill.page)
        elif fill.page in self.cache:
            assert fill.size_bytes is not None
            try:
                self._shelf.put(fill.page, fill.body)
                self._sizes[fill.page] = fill.size_bytes
            except OSError as error:
                log.error("a page could not be kept", page=fill.page, reason=str(error))
                self.cache.remove(fill.page)
        if not fill.readers:
            fill.close()

    def _follow(self, step: Step[str]) -> str:
        for page, _ in step.evicted:
            self._forget(page)
        return step.outcome

    def _forget(self, page: str) -> None:
        """The cache does not hold it any more. A fill is dropped at its end, if it still does not
        then."""
        self._waiting.pop(page, None)
        if self._sizes.pop(page, None) is not None:
            self._shelf.drop(page)

    def _lost(self, page: str) -> None:
        log.warning("a page has gone from its place", page=page)
        self._forget(page)
        self.cache.remove(page)


class _Whole:
    """A page on the shelf, as one reader has it open."""

    def __init__(self, pages: Pages, page: str, body: Body) -> None:
        self._pages = pages
        self._page = page
        self._body = body

    async def pieces(self, start: int, stop: int) -> AsyncIterator[bytes]:
        while start < stop:
            piece = self._body.read(start, min(PIECE_BYTES, stop - start))
            if not piece:
                self._pages._lost(self._page)
                raise Unavailable(f"page {self._page} is damaged, and dropped", hint="ask again")
            start += len(piece)
            yield piece
