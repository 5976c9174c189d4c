"""Carries the machine's calls to the cluster, and their answers back. Decides nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from msgspec import UNSET

from tocsin.broker.machine import BrokerMachine
from tocsin.broker.machine.effects import (
    AskNews,
    AttachSubscriber,
    CloseStream,
    ClusterCall,
    CreateSubscription,
    DeleteSubscription,
    Effect,
    Fetch,
    LoadSubscriptions,
    OpenStream,
    ReadLog,
    Register,
    StoreMarkers,
)
from tocsin.broker.machine.events import RangeAnswer
from tocsin.broker.server.cluster_link import ClusterLink, log_part, new_heads, stream_line
from tocsin.broker.server.encoding import subscription_of
from tocsin.broker.server.metrics import Counts
from tocsin.errors import TocsinError, Unavailable

log = structlog.get_logger()

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
MARKERS = StoreMarkers.__name__
"""The name of tasks that store markers."""


class ClusterCalls:
    def __init__(
        self,
        link: ClusterLink,
        url: str,
        machine: BrokerMachine,
        counts: Counts,
        spawn: Spawn,
        perform: Callable[[list[Effect]], None],
    ) -> None:
        self._link = link
        self._url = url
        self._machine = machine
        self._counts = counts
        self._spawn = spawn
        self._perform = perform
        self._streams: dict[int, asyncio.Task[None]] = {}

    def carry(self, call: ClusterCall) -> None:
        """It ends in one answer or one failure."""
        if isinstance(call, Fetch):
            self._link.fetch(call, self._fetched)
            return
        task = self._spawn(self._carry(call), type(call).__name__)
        if isinstance(call, OpenStream):
            self._streams[call.call] = task
            task.add_done_callback(lambda _: self._streams.pop(call.call, None))

    def close_stream(self, effect: CloseStream) -> None:
        task = self._streams.pop(effect.call, None)
        if task is not None:
            task.cancel()

    def _fetched(self, fetch: Fetch, answer: RangeAnswer | TocsinError) -> None:
        if not isinstance(answer, RangeAnswer):
            self._failed(fetch, answer)
            return
        if fetch.ahead and answer.results:
            lag_s = time.time() - answer.results[0].created_at
            self._counts.lag_s.observe(max(0.0, lag_s))
        self._perform(self._machine.fetched(fetch.call, answer, time.monotonic()))

    async def _carry(self, call: ClusterCall) -> None:
        try:
            effects = await self._answered(call)
        except TocsinError as error:
            self._failed(call, error)
        except Exception as error:  # a fault of ours: whoever waits for the answer hears of it
            log.exception("an answer of the cluster could not be handled", call=type(call).__name__)
            self._failed(call, TocsinError(f"an internal error of this broker: {error}"))
        else:
            self._perform(effects)

    def _failed(self, call: ClusterCall, error: TocsinError) -> None:
        if isinstance(call, Register | LoadSubscriptions):
            log.info(f"waiting for the cluster at {self._link.url}", reason=error.message)
        else:
            log.info("no answer from the cluster", call=type(call).__name__, reason=str(error))
        self._perform(self._machine.failed(call.call, error, time.monotonic()))

    async def _answered(self, call: ClusterCall) -> list[Effect]:
        link, machine, number = self._link, self._machine, call.call
        match call:
            case Register():
                store_id = (await link.register(self._url)).store_id
                return machine.registered(number, store_id, time.monotonic())
            case LoadSubscriptions():
                page = await link.load(call.after)
                subscriptions = [subscription_of(info) for info in page.subscriptions]
                stands, now = (page.store_id, page.sequence), time.monotonic()
                return machine.loaded(number, *stands, subscriptions, now, page.upto)
            case AttachSubscriber():
                arrived = await link.attach(call.subscriber, call.token)
                subscriptions = [subscription_of(info) for info in arrived.subscriptions]
                most = None if arrived.connections is UNSET else arrived.connections
                return machine.attached(number, subscriptions, time.monotonic(), most)
            case CreateSubscription():
                info = await link.subscribe(call.subscriber, call.interest, call.token)
                return machine.subscribed(number, subscription_of(info), time.monotonic())
            case DeleteSubscription():
                await link.unsubscribe(call.subscription, call.subscriber)
                return machine.unsubscribed(number, time.monotonic())
            case AskNews():
                news = await link.news(call.since)
                heads, now = new_heads(news.heads), time.monotonic()
                return machine.news(number, news.store_id, news.sequence, heads, news.detached, now)
            case StoreMarkers():
                unknown = await link.store_markers(call.markers)
                return machine.markers_stored(number, unknown, time.monotonic())
            case ReadLog():
                records = await link.records(call.dataset, call.after, call.upto)
                part = log_part(call.dataset, records)
                return machine.log_read(number, part, time.monotonic())
            case OpenStream():
                await self._follow(call)
                raise Unavailable("the stream of records has ended")
            case Fetch():
                raise AssertionError("fetches travel together")

    async def _follow(self, call: OpenStream) -> None:
        async for line in self._link.routed():
            event = stream_line(line)
            if event is not None:
                self._perform(self._machine.streamed(call.call, event, time.monotonic()))
