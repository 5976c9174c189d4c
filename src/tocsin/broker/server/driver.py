"""Feeds the core with events and performs its effects; the one place that holds core and I/O.

Single-threaded: everything here runs in the event loop, and nothing waits while it holds the
core's attention. If the cluster's store was replaced the core is too, so whoever waits for the
cluster takes the core along and looks afterwards whether it is still the present one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any

import msgspec
import structlog

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import AskNews, Effect, Fetch, NewPages, StoreMarkers
from tocsin.broker.events import RangeAnswer
from tocsin.broker.near import Near
from tocsin.broker.server import encoding
from tocsin.broker.server.cluster_link import ClusterLink, Interest, News
from tocsin.broker.server.lines import Asker, Line, Lines
from tocsin.broker.server.metrics import Counts
from tocsin.broker.server.overlay import Overlay
from tocsin.broker.server.pages import Pages, make_shelf
from tocsin.client import frames
from tocsin.client.frames import SubscriptionInfo
from tocsin.errors import NotFound, TocsinError, Unavailable
from tocsin.policies import parse_policy
from tocsin.settings import Settings

log = structlog.get_logger()

RESYNC_EVERY_S = 5.0


class Driver:
    """The live broker's one object that everything else calls."""

    core: BrokerCore
    link: ClusterLink
    counts: Counts
    lines: Lines
    overlay: Overlay
    pages: Pages

    def __init__(self, settings: Settings, link: ClusterLink, url: str) -> None:
        self.settings = settings
        self.link = link
        self.url = url
        self.counts = Counts()
        self.policy = parse_policy(settings.cache_policy)
        self.core = self._new_core()
        self.store: str | None = None  # the id of the cluster's store, once we are registered
        self.lines = Lines(self.counts)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.overlay = Overlay(settings, link, self.spawn, lambda: self.core, self._perform)
        self.pages = Pages(
            settings.page_policy,
            settings.page_cache_bytes,
            make_shelf(settings.page_cache, settings.broker_name),
            link,
            self.spawn,
            lambda: self.core.attachments.watcher,
        )
        self._departing = 0  # unsubscribe calls under way
        self._arriving = 0  # attach and subscribe calls under way
        self._resyncing: asyncio.Task[None] | None = None
        self._resynced_at = -RESYNC_EVERY_S

    def _new_core(self) -> BrokerCore:
        return BrokerCore(
            self.policy,
            self.settings.cache_bytes,
            time.monotonic(),
            news_poll_s=self.settings.news_poll_s,
        )

    # The cluster

    async def load(self) -> None:
        """Register and learn what is attached here; start anew if the store is another one."""
        registered = await self.link.register(self.url)
        if self.store is not None and self.store != registered.cluster:
            log.warning("the cluster has another store; starting anew", store=registered.cluster)
            self.core = self._new_core()
            self.overlay.begin_anew()
            self.lines.close_all(frames.GOING_AWAY, "the cluster was replaced: reconnect")
        self.store = registered.cluster
        core, asked = self.core, self.core.moment
        loaded = await self.link.load()
        if loaded.cluster not in (None, self.store):
            raise Unavailable("the cluster was replaced while this broker loaded")
        subscriptions = [encoding.subscription_of(info) for info in loaded.subscriptions]
        effects = core.loaded(loaded.sequence, subscriptions, asked, time.monotonic())
        self._perform(core, effects)

    def resync_soon(self) -> None:
        """The cluster spoke of something unknown to one of us: compare everything."""
        if self._resyncing is None and time.monotonic() - self._resynced_at >= RESYNC_EVERY_S:
            self._resyncing = self.spawn(self._resync())

    async def _resync(self) -> None:
        try:
            await self.load()
            log.info("compared everything with the cluster", subscriptions=self.subscriptions)
        except TocsinError as error:
            log.warning("could not compare everything with the cluster", reason=str(error))
        finally:
            self._resyncing = None
            self._resynced_at = time.monotonic()

    def notice(self, notice: News) -> None:
        if self.store is None:
            raise Unavailable("this broker is still loading")
        if notice.cluster != self.store:
            self._resynced_at = -RESYNC_EVERY_S
            self.resync_soon()
            return
        self._observe_lag(notice)
        effects = self.core.notice(notice.new_heads(), notice.detached, time.monotonic())
        self._perform(self.core, effects)

    def tick(self) -> None:
        self._perform(self.core, self.core.tick(time.monotonic()))

    async def flush_markers(self) -> None:
        """Store what was acknowledged so far, if the cluster answers."""
        for _ in range(3):
            effects = self.core.tick(time.monotonic())
            self._perform(self.core, effects)
            waiting = [t for t in self._tasks if t.get_name() == "markers"]
            if not waiting:
                return
            await asyncio.wait(waiting, timeout=2.0)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the broker failed", exc_info=task.exception())

    # Clients

    @property
    def subscriptions(self) -> int:
        return len(self.core.attachments.frontends)

    async def attach(self, subscriber: str, line: Line | None = None) -> list[SubscriptionInfo]:
        """Move a subscriber here and tell the core, with the line that it listens on, if any."""
        while True:
            core, asked = self.core, self.core.moment
            self._arriving += 1
            try:
                infos = await self.link.attach(subscriber)
            except NotFound:
                self._resynced_at = -RESYNC_EVERY_S  # the cluster forgot this broker
                self.resync_soon()
                raise Unavailable("this broker is registering anew", hint="try again") from None
            finally:
                self._arriving -= 1
            if core is self.core:
                break
        given = [encoding.subscription_of(info) for info in infos]
        now = time.monotonic()
        if line is None:
            effects: list[Effect] = []
            for one in given:
                effects += core.subscribed(one, asked, now)
        else:
            self.lines.add(line)
            effects = core.connected(line.number, subscriber, line.inline, given, asked, now)
        infos = [self._current(core, info) for info in infos]
        if line is not None:
            assert self.store is not None
            line.send(encoding.welcome_message(self.settings.broker_name, self.store, infos))
        self._perform(core, effects)
        if line is not None and not line.open:  # its client left while we waited
            self.left(line)
        return infos

    def left(self, line: Line) -> None:
        """A line's client is gone."""
        if self.lines.remove(line):
            self._perform(self.core, self.core.disconnected(line.number, time.monotonic()))

    async def subscribe(
        self, subscriber: str, wanted: Interest, line: Line | None = None
    ) -> SubscriptionInfo:
        """Subscribe, for the client on that line, if any."""
        while True:
            core, asked = self.core, self.core.moment
            self._arriving += 1
            try:
                info = await self.link.subscribe(subscriber, wanted)
            finally:
                self._arriving -= 1
            if core is self.core:
                break
        if info.broker != self.settings.broker_name:
            return await self._bring_here(info, line)
        subscription = encoding.subscription_of(info)
        effects = core.subscribed(subscription, asked, time.monotonic())
        # The caller must be able to answer before signals of the new subscription are sent.
        asyncio.get_running_loop().call_soon(self._perform, core, effects)
        return self._current(core, info)

    async def _bring_here(self, wanted: SubscriptionInfo, line: Line | None) -> SubscriptionInfo:
        """It is served elsewhere. Whoever asks here comes here with all they have, unless they
        have gone there since they asked."""
        if line is not None and not line.open:
            raise Unavailable("the connection that asked is closed")
        for info in await self.attach(wanted.subscriber):
            if info.subscription == wanted.subscription:
                return info
        raise Unavailable(f"subscription {wanted.subscription} has just ended", hint="try again")

    async def unsubscribe(self, subscriber: str, subscription: int) -> None:
        self._departing += 1
        try:
            await self.link.unsubscribe(subscription, subscriber)
        except NotFound:
            self._forget(subscriber, subscription)
            raise
        finally:
            self._departing -= 1
        self._forget(subscriber, subscription)

    def _forget(self, subscriber: str, subscription: int) -> None:
        known = self.core.attachments.frontends.get(subscription)
        if known is not None and known.subscriber == subscriber:
            self._perform(self.core, self.core.unsubscribed(subscription, time.monotonic()))

    def get(self, asker: Asker, subscriber: str, subscription: int, **cursor: Any) -> None:
        effects = self.core.get(asker, subscriber, subscription, time.monotonic(), **cursor)
        self._perform(self.core, effects)

    def ack(
        self, subscriber: str, subscription: int, epoch: str, position: int, **who: Any
    ) -> None:
        now = time.monotonic()
        effects = self.core.ack(subscriber, subscription, epoch, position, now, **who)
        self._perform(self.core, effects)

    def set_policy(self, text: str) -> None:
        self.policy = parse_policy(text)
        self._perform(self.core, self.core.set_policy(self.policy, time.monotonic()))

    def _current(self, core: BrokerCore, info: SubscriptionInfo) -> SubscriptionInfo:
        """What clients are told: the cluster's answer may be older than what they learned here."""
        known = core.current(encoding.subscription_of(info))
        return msgspec.structs.replace(
            info,
            epoch=known.backend.epoch,
            head=known.backend.head,
            marker=known.marker,
            filter=msgspec.UNSET,
            attachments=msgspec.UNSET,
            keys=msgspec.UNSET,
        )

    # Effects

    def _perform(self, core: BrokerCore, effects: Iterable[Effect]) -> None:
        if core is not self.core:
            return
        for effect in effects:
            match effect:
                case Fetch():
                    self._fetch(core, effect)
                case StoreMarkers():
                    self.spawn(self._store_markers(core, effect), "markers")
                case AskNews():
                    self.spawn(self._ask_news(core, effect))
                case NewPages():
                    self.pages.mentioned(effect)
                case _:
                    self.lines.tell(effect)
        self.overlay.follow()

    def _fetch(self, core: BrokerCore, fetch: Fetch) -> None:
        """What somebody waits for may be in a neighbour's cache; the rest is in the store."""
        if fetch.ahead or not self.overlay.has_neighbours:
            self.link.fetch(fetch, partial(self._fetched, core))
        else:
            self.spawn(self._fetch_near(core, fetch))

    async def _fetch_near(self, core: BrokerCore, fetch: Fetch) -> None:
        backend = core.attachments.backends.get(fetch.backend)
        near = await self.overlay.near(fetch, backend.epoch) if backend is not None else None
        if near is None:
            self.link.fetch(fetch, partial(self._fetched, core))
        elif near.after <= fetch.after:
            self._fetched(core, fetch, near.behind(None))
        else:
            before = msgspec.structs.replace(fetch, upto=near.after)
            self.link.fetch(before, partial(self._fetched_before, core, fetch, near))

    def _fetched_before(
        self,
        core: BrokerCore,
        fetch: Fetch,
        near: Near,
        _: Fetch,
        answer: RangeAnswer | TocsinError,
    ) -> None:
        whole = near.behind(answer) if isinstance(answer, RangeAnswer) else answer
        self._fetched(core, fetch, whole)

    def _fetched(self, core: BrokerCore, fetch: Fetch, answer: RangeAnswer | TocsinError) -> None:
        now = time.monotonic()
        if isinstance(answer, RangeAnswer):
            if fetch.ahead and answer.results:
                self.counts.lag_s.observe(max(0.0, time.time() - answer.results[0].created_at))
            self._perform(core, core.fetched(fetch.fetch, answer, now))
            return
        log.info("results could not be fetched", backend=fetch.backend, reason=str(answer))
        self._perform(core, core.fetch_failed(fetch.fetch, now))
        if isinstance(answer, NotFound) and core is self.core:
            self.resync_soon()

    async def _store_markers(self, core: BrokerCore, effect: StoreMarkers) -> None:
        try:
            unknown = await self.link.store_markers(effect.markers)
        except TocsinError as error:
            log.info("acknowledgements could not be stored yet", reason=str(error))
            self._perform(core, core.markers_failed(time.monotonic()))
        else:
            self._perform(core, core.markers_stored(unknown))

    async def _ask_news(self, core: BrokerCore, effect: AskNews) -> None:
        try:
            news = await self.link.news(effect.since)
        except TocsinError as error:
            log.info("no news from the cluster", reason=str(error))
            self._perform(core, core.news_failed(time.monotonic()))
            if isinstance(error, NotFound) and core is self.core:
                self.resync_soon()
            return
        if news.cluster not in (None, self.store) and core is self.core:
            self._perform(core, core.news_failed(time.monotonic()))
            self._resynced_at = -RESYNC_EVERY_S
            self.resync_soon()
            return
        now = time.monotonic()
        self._perform(core, core.news(news.sequence, news.new_heads(), news.detached, now))
        unknown = any(head.backend not in core.attachments.backends for head in news.heads)
        if unknown and not self._arriving and not self._departing and core is self.core:
            self.resync_soon()  # somebody was subscribed on our behalf, by a statement

    def _observe_lag(self, notice: News) -> None:
        now = time.time()
        for head in notice.heads:
            if head.results:
                self.counts.lag_s.observe(max(0.0, now - head.results[0].at))
