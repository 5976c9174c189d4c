"""`Pages`: a broker's page cache, live. Which page is fetched, for whom, kept, dropped and served.

What is kept is the page cache's decision; here follows what that means for bytes, as effects. A
page is fetched once for all who ask; they read it while it comes. One that the page cache holds is
kept, on its way, or waits to be fetched.

A page is named by the hash of its bytes, so that it outlives the store whose results mentioned it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tocsin.broker.machine.effects import (
    Asker,
    DropPage,
    Effect,
    EndFetch,
    Fail,
    FetchPage,
    KeepPage,
    NewPages,
    ServePage,
)
from tocsin.broker.machine.pages.announcements import Announcements
from tocsin.broker.machine.pages.fetches import FetchQueue, PageFetch
from tocsin.broker.machine.watching import NOBODY, Watcher
from tocsin.caching.page_cache import PageCache, PageCounters, Step
from tocsin.errors import TocsinError
from tocsin.policies.page import PagePolicy


class Pages:
    def __init__(
        self,
        policy: PagePolicy,
        capacity_bytes: int,
        watcher: Callable[[], Watcher] = lambda: NOBODY,
    ) -> None:
        self.cache: PageCache[str] = PageCache(policy, capacity_bytes)
        self.kept: dict[str, int] = {}  # whole pages that lie here, with their sizes
        self._watcher = watcher
        self._announcements = Announcements(self.cache)
        self._queue = FetchQueue()
        self._last_fetch = 0
        self._coming: dict[str, PageFetch] = {}  # by page: who asks joins it
        self._fetches: dict[int, PageFetch] = {}  # these, and those that are over and still read
        self._fetch_of: dict[Asker[ServePage], PageFetch] = {}

    @property
    def filling(self) -> int:
        """Pages that are on their way, or wait to be fetched."""
        return len(self._coming)

    # -- time, settings, stores -------------------------------------------------------------------

    def begin(self, pages: Iterable[tuple[str, int]]) -> list[Effect]:
        """What an earlier process left: whole pages and their sizes, in the order they came.
        Nobody knows any more how many subscriptions a page had: it counts as pushed for one, and
        else as asked for once."""
        effects: list[Effect] = []
        for page, size_bytes in pages:
            self.kept[page] = size_bytes
            step = self.cache.publish(page, size_bytes, 1)
            effects += self._follow(step)
            if step.outcome != "stored":
                effects += self._follow(self.cache.request(page, size_bytes, False))
            if page not in self.cache:
                effects += self._forget(page)
            self._announcements.remember(page)
        self.cache.counters = PageCounters()
        return effects

    def tick(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for page, size_bytes, subscriptions in self._announcements.due(now):
            self._watcher().page_published(page, size_bytes, subscriptions)
            step = self.cache.publish(page, size_bytes, subscriptions)
            effects += self._follow(step)
            if step.outcome == "stored" and page not in self._coming:
                self._add_fetch(page)
        return effects + self._start()

    def set_policy(self, policy: PagePolicy, capacity_bytes: int | None = None) -> list[Effect]:
        effects: list[Effect] = []
        for page, _ in self.cache.set_policy(policy, capacity_bytes):
            effects += self._forget(page)
        return effects + self._start()

    def store_replaced(self) -> None:
        """Pages stay, and what is on its way comes: their names are hashes."""
        self._announcements.forget_store()

    # -- results that mention pages, clients that ask for them ------------------------------------

    def announced(self, new: NewPages, now: float) -> None:
        for page, is_so in self._announcements.take(new, now):
            self._watcher().page_superseded(page, is_so)
            self.cache.superseded(page, is_so)

    def asked(self, request: Asker[ServePage], page: str, notification: bool) -> list[Effect]:
        """ServePage or Fail follows."""
        size_bytes = self.kept.get(page)
        if size_bytes is not None:
            served = ServePage(request, page, size_bytes, None)
            return [served, *self._request(page, size_bytes, notification)]
        fetch = self._coming.get(page) or self._add_fetch(page)
        self._queue.hasten(fetch)
        self._fetch_of[request] = fetch
        fetch.askers[request] = notification
        effects = self._start()
        if fetch.size_bytes is not None:
            effects += self._serve(fetch, request)
        return effects

    def left(self, request: Asker[ServePage]) -> list[Effect]:
        """Who asked has read enough, or waits no longer."""
        fetch = self._fetch_of.pop(request, None)
        if fetch is None:
            return []
        del fetch.askers[request]
        return self._end_if_unwanted(fetch) + self._start()

    # -- what became of effects -------------------------------------------------------------------

    def begun(self, number: int, size_bytes: int) -> list[Effect]:
        """The cluster answered: so many bytes will come. A query may make up what its results say
        of an attachment; the budget counts bytes."""
        fetch = self._fetches.get(number)
        if fetch is None:
            return []
        if self.cache.size_of(fetch.page) not in (None, max(1, size_bytes)):
            self.cache.remove(fetch.page)
        fetch.size_bytes = size_bytes
        effects: list[Effect] = []
        for request in fetch.askers:
            effects += self._serve(fetch, request)
        return effects + self._end_if_unwanted(fetch) + self._start()

    def fetched(self, number: int) -> list[Effect]:
        """All of it has come, and it is what it is called."""
        fetch = self._fetches.get(number)
        if fetch is None:
            return []
        assert fetch.size_bytes is not None
        effects: list[Effect] = []
        if fetch.page in self.cache:
            self.kept[fetch.page] = fetch.size_bytes
            effects.append(KeepPage(number, fetch.page))
        return effects + self._over(fetch)

    def failed(self, number: int, error: TocsinError) -> list[Effect]:
        """No more of it comes. Those who read it already see that it ends too early."""
        fetch = self._fetches.get(number)
        if fetch is None:
            return []
        self.cache.remove(fetch.page)
        effects: list[Effect] = []
        if fetch.size_bytes is None:
            for request in fetch.askers:
                del self._fetch_of[request]
                effects.append(Fail(request, error))
            fetch.askers.clear()
        return effects + self._over(fetch)

    def damaged(self, page: str) -> list[Effect]:
        """What was kept is not there, or not what it was. Who asks next has it fetched."""
        if page not in self.kept:  # it was dropped since, or is on its way again
            return []
        self.cache.remove(page)
        return self._forget(page)

    # -- rules ------------------------------------------------------------------------------------

    def _add_fetch(self, page: str) -> PageFetch:
        self._last_fetch += 1
        fetch = PageFetch(self._last_fetch, page)
        self._coming[page] = self._fetches[fetch.number] = fetch
        self._queue.add(fetch)
        return fetch

    def _start(self) -> list[Effect]:
        return [FetchPage(fetch.number, fetch.page) for fetch in self._queue.start()]

    def _serve(self, fetch: PageFetch, request: Asker[ServePage]) -> list[Effect]:
        assert fetch.size_bytes is not None
        served = ServePage(request, fetch.page, fetch.size_bytes, fetch.number)
        return [served, *self._request(fetch.page, fetch.size_bytes, fetch.askers[request])]

    def _request(self, page: str, size_bytes: int, notification: bool) -> list[Effect]:
        self._announcements.remember(page)
        step = self.cache.request(page, size_bytes, notification)
        self._watcher().page_requested(page, size_bytes, notification, step.outcome == "hit")
        return self._follow(step)

    def _over(self, fetch: PageFetch) -> list[Effect]:
        fetch.over = True
        self._queue.remove(fetch)
        del self._coming[fetch.page]
        return self._end_if_unwanted(fetch) + self._start()

    def _end_if_unwanted(self, fetch: PageFetch) -> list[Effect]:
        """Nobody reads it, and there is no more to come or nobody will: who asks from now on
        begins anew."""
        if fetch.askers or not (fetch.over or fetch.page not in self.cache):
            return []
        del self._fetches[fetch.number]
        if fetch.over:
            return [EndFetch(fetch.number)]
        del self._coming[fetch.page]
        return [EndFetch(fetch.number)] if self._queue.remove(fetch) else []

    def _follow(self, step: Step[str]) -> list[Effect]:
        effects: list[Effect] = []
        for page, _ in step.evicted:
            effects += self._forget(page)
        return effects

    def _forget(self, page: str) -> list[Effect]:
        """The page cache does not hold it any more. Those who read it go on."""
        effects: list[Effect] = []
        if self.kept.pop(page, None) is not None:
            effects.append(DropPage(page))
        fetch = self._coming.get(page)
        return effects if fetch is None else effects + self._end_if_unwanted(fetch)
