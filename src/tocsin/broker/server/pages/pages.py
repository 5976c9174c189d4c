"""`Pages`: a broker's page cache live. What it keeps is the page cache's decision; here the bytes
follow: fetched once for all who ask, pushed in the background, dropped when they are evicted.

At any moment a page that the cache holds is on the shelf, on its way, or waits to be fetched.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import msgspec
import structlog

from tocsin.broker.machine.effects import NewPages
from tocsin.broker.machine.watching import NOBODY, Watcher
from tocsin.broker.server.pages.fill import Fill
from tocsin.broker.server.pages.shelf import Shelf
from tocsin.broker.server.pages.stories import Stories
from tocsin.broker.server.pages.whole import Whole
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
        watcher: Callable[[], Watcher] = lambda: NOBODY,
    ) -> None:
        self.cache: PageCache[str] = PageCache(parse_page_policy(policy), capacity_bytes)
        self.served_bytes: int = 0
        self.fetched_bytes: int = 0
        self._shelf = shelf
        self._source = source
        self._spawn = spawn
        self._watcher = watcher
        self._sizes: dict[str, int] = {}  # of whole pages
        self._fills: dict[str, Fill] = {}
        self._waiting: OrderedDict[str, None] = OrderedDict()  # pushed, to be fetched
        self._pushing = 0
        self._fetching = asyncio.Semaphore(FETCHES_AT_ONCE)
        self._matched: OrderedDict[str, int] = OrderedDict()  # page -> subscriptions so far
        self._stories = Stories(REMEMBERED)
        self._news: dict[str, int] = {}  # pages to be published, with their sizes

    @property
    def saved_bytes(self) -> int:
        """What clients got and the cluster did not have to send. Pushes may cost more than that."""
        return self.served_bytes - self.fetched_bytes

    @property
    def filling(self) -> int:
        return len(self._fills)

    async def start(self) -> None:
        """Take what an earlier process left, in the order it came. Nobody knows any more how many
        subscriptions a page had: it counts as pushed for one, and else as asked for once."""
        for page, size_bytes in await asyncio.to_thread(self._shelf.found):
            self._sizes[page] = size_bytes
            if self._follow(self.cache.publish(page, size_bytes, 1)) != "stored":
                self._follow(self.cache.request(page, size_bytes, False))
            if page not in self.cache:
                self._forget(page)
            self._remember(page)
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
                if found is not None and is_attachment_id(found.id) and found.size >= 0:
                    self._note(found, told.subscriptions)
                    key = [record.get(name) for name in told.keys]
                    if key and None not in key:
                        story = told.channel, field, msgspec.json.encode(key)
                        self._version(story, found.id, result.created_at)

    def _note(self, found: Attachment, subscriptions: int) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(GATHER_S, self._publish)
        self._news[found.id] = found.size
        self._remember(found.id, subscriptions)

    def _version(self, story: tuple[str, str, bytes], page: str, made_at: float) -> None:
        outdated = self._stories.tell(story, page, made_at)
        if outdated != page and self.cache.is_superseded(page):
            self._supersede(page, False)
        if outdated is not None:
            self._supersede(outdated, True)

    def _supersede(self, page: str, is_so: bool) -> None:
        self._watcher().page_superseded(page, is_so)
        self.cache.superseded(page, is_so)

    def _publish(self) -> None:
        news, self._news = self._news, {}
        for page, size_bytes in news.items():
            subscriptions = self._matched.get(page, 1)
            self._watcher().page_published(page, size_bytes, subscriptions)
            step = self.cache.publish(page, size_bytes, subscriptions)
            if self._follow(step) == "stored" and page not in self._fills:
                self._waiting[page] = None
        self._push_on()

    def _push_on(self) -> None:
        while self._waiting and self._pushing < PUSHES_AT_ONCE:
            page, _ = self._waiting.popitem(last=False)
            self._pushing += 1
            self._start_fill(page).task.add_done_callback(self._pushed)

    def _pushed(self, _: asyncio.Task[None]) -> None:
        self._pushing -= 1
        self._push_on()

    # Requests

    async def open(self, page: str, notification: bool, start: Callable[[int], int]) -> Reading:
        """Somebody reads it, from where `start` makes of its size. NotFound or Unavailable if it
        cannot be had."""
        size_bytes = self._sizes.get(page)
        if size_bytes is not None:
            body = self._shelf.open(page, start(size_bytes))
            if body is not None:
                self._request(page, size_bytes, notification)
                whole = Whole(body, lambda: self._lost(page))
                return Reading(size_bytes, self._counted(whole), body.close)
            self._lost(page)
        self._waiting.pop(page, None)
        fill = self._fills.get(page) or self._start_fill(page)
        fill.readers += 1
        try:
            size_bytes = await fill.begun()
            self._request(page, size_bytes, notification)
            self._keep(fill)
        except BaseException:
            self._left(fill)
            raise
        return Reading(size_bytes, self._counted(fill), lambda: self._left(fill))

    async def size_bytes(self, page: str) -> int:
        """Without fetching it."""
        known = self._sizes.get(page)
        return await self._source.attachment_size(page) if known is None else known

    def _request(self, page: str, size_bytes: int, notification: bool) -> None:
        self._remember(page)
        hit = self._follow(self.cache.request(page, size_bytes, notification)) == "hit"
        self._watcher().page_requested(page, size_bytes, notification, hit)

    def _counted(self, of: Fill | Whole) -> Callable[[int, int], AsyncIterator[bytes]]:
        async def pieces(start: int, stop: int) -> AsyncIterator[bytes]:
            async for piece in of.pieces(start, stop):
                self.served_bytes += len(piece)
                yield piece

        return pieces

    def _left(self, fill: Fill) -> None:
        fill.readers -= 1
        if fill.readers:
            return
        if fill.over:
            fill.close()
        elif fill.page not in self.cache:
            self._give_up(fill)

    # Bytes

    def _start_fill(self, page: str) -> Fill:
        fill = self._fills[page] = Fill(page, self._shelf.new())
        fill.task = self._spawn(self._fill(fill))
        fill.task.add_done_callback(lambda _: self._filled(fill))
        return fill

    async def _fill(self, fill: Fill) -> None:
        try:
            async with self._fetching, self._source.attachment(fill.page) as coming:
                self._check_size(fill.page, coming.size_bytes)
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

    def _check_size(self, page: str, size_bytes: int) -> None:
        """A query may make up what its results say of an attachment. The budget counts bytes."""
        if self.cache.size_of(page) not in (None, max(1, size_bytes)):
            log.warning("a result told a wrong size of an attachment", page=page)
            self.cache.remove(page)

    def _filled(self, fill: Fill) -> None:
        """Its task has ended, however."""
        fill.over = True
        if self._fills.get(fill.page) is fill:
            del self._fills[fill.page]
            if not fill.whole:
                self.cache.remove(fill.page)
        if fill.whole:
            self._keep(fill)
        else:
            fill.fail(Unavailable("the fetch was given up", hint="ask again"))
        if not fill.readers:
            fill.close()

    def _keep(self, fill: Fill) -> None:
        """On the shelf, if it is whole and wanted."""
        if not fill.whole or fill.page not in self.cache or fill.page in self._sizes:
            return
        assert fill.size_bytes is not None
        try:
            self._shelf.put(fill.page, fill.body)
            self._sizes[fill.page] = fill.size_bytes
        except OSError as error:
            log.error("a page could not be kept", page=fill.page, reason=str(error))
            self.cache.remove(fill.page)

    def _give_up(self, fill: Fill) -> None:
        """Nobody wants it any more; who asks from now on begins anew."""
        if self._fills.get(fill.page) is fill:
            del self._fills[fill.page]
        fill.task.cancel()

    def _follow(self, step: Step[str]) -> str:
        for page, _ in step.evicted:
            self._forget(page)
        return step.outcome

    def _forget(self, page: str) -> None:
        """The cache does not hold it any more. Those who read it go on."""
        self._waiting.pop(page, None)
        if self._sizes.pop(page, None) is not None:
            self._shelf.drop(page)
        fill = self._fills.get(page)
        if fill is not None and not fill.readers:
            self._give_up(fill)

    def _lost(self, page: str) -> None:
        log.warning("a page is damaged or gone, and dropped", page=page)
        self._forget(page)
        self.cache.remove(page)

    def _remember(self, page: str, subscriptions: int = 0) -> None:
        """So many more of our subscriptions matched it. Of pages that were not heard of for long
        and are not here, nothing is known any more."""
        self._matched[page] = self._matched.pop(page, 0) + subscriptions
        while len(self._matched) > REMEMBERED + len(self.cache):
            oldest, count = self._matched.popitem(last=False)
            if oldest in self.cache:
                self._matched[oldest] = count
            else:
                self.cache.remove(oldest)
