"""Tell brokers up to which position their backend subscriptions have results.

Notices are batched per broker, conflated while one is under way, signed, and retried with back-off.
A notice that never arrives only delays: the broker asks "what is new since" by itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import structlog
from prometheus_client import Counter

from tocsin.errors import TocsinError
from tocsin.model import Channel, Head, Result, Subscription
from tocsin.service.backoff import NO_ANSWER
from tocsin.service.tokens import sign_notice
from tocsin.storage.runs import Committed
from tocsin.storage.store import Store

log = structlog.get_logger()

NOTICES = Counter("tocsin_notices_total", "Notices sent to brokers", ["broker", "outcome"])

GATHER_S = 0.01  # between two notices to a broker at least
FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
PUSHED_BYTES_AT_MOST = 512 * 1024


class _Pushed:
    """Results to be told with their heads: of each backend subscription the newest, without holes,
    all together no more than a notice takes. Those that do not fit are fetched."""

    def __init__(self) -> None:
        self._results: dict[int, list[Result]] = {}
        self._bytes = 0

    def add(self, result: Result) -> None:
        if self._bytes + result.size_bytes > PUSHED_BYTES_AT_MOST:
            self._results, self._bytes = {}, 0
        self._bytes += result.size_bytes
        known = self._results.setdefault(result.backend, [])
        if known and known[-1].position + 1 != result.position:
            known.clear()
        known.append(result)

    def up_to(self, head: Head) -> list[Result]:
        """Those at or before the head; none unless they reach it."""
        known = self._results.get(head.backend, [])
        reached = head.head - known[0].position + 1 if known else 0
        return known[:reached] if 0 < reached <= len(known) else []

    def after(self, heads: Sequence[Head]) -> _Pushed:
        """Those of the same backend subscriptions that are newer than the heads."""
        left = _Pushed()
        for head in heads:
            for result in self._results.get(head.backend, ()):
                if result.position > head.head:
                    left.add(result)
        return left


@dataclass
class _Known:
    """A broker as its deliverer sees it. `since` is the last sequence it has surely heard of."""

    name: str
    url: str
    since: int
    pushed: _Pushed = field(default_factory=lambda: _Pushed())
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Notifier:
    """A task per broker, so that a dead one keeps nobody waiting. A notice is the store's own
    answer to "what is new since", so batching, conflation and repeats need no state here."""

    def __init__(self, store: Store, secret: str) -> None:
        self._store = store
        self._secret = secret
        self._brokers: dict[str, _Known] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._client = httpx.AsyncClient(timeout=5.0)

    async def start(self) -> None:
        for broker in await asyncio.to_thread(self._store.catalog.brokers):
            await self.know(broker.name, broker.url)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._client.aclose()

    async def know(self, broker: str, url: str) -> None:
        """From now on notices for `broker` go to `url`."""
        if broker not in self._brokers:
            since = await asyncio.to_thread(self._store.sequence)
            if broker not in self._brokers:  # by another call meanwhile
                known = self._brokers[broker] = _Known(broker, url, since)
                self._tasks[broker] = asyncio.create_task(self._deliver(known))
        self._brokers[broker].url = url

    def forget(self, broker: str) -> None:
        self._brokers.pop(broker, None)
        task = self._tasks.pop(broker, None)
        if task is not None:
            task.cancel()

    def results_committed(self, channel: Channel, committed: Committed) -> None:
        if channel.push:
            for result in committed.results:
                for known in self._brokers.values():
                    known.pushed.add(result)
        self.wake()

    def wake(self) -> None:
        """Something changed that brokers may have to hear of."""
        for known in self._brokers.values():
            known.wake.set()

    async def _deliver(self, known: _Known) -> None:
        told_at = -GATHER_S
        while True:
            await known.wake.wait()
            # The first goes at once; what comes soon after is told together.
            await asyncio.sleep(max(0.0, told_at + GATHER_S - time.monotonic()))
            told_at = time.monotonic()
            known.wake.clear()
            news = self._store.subscriptions.news
            try:
                sequence, heads, detached = await asyncio.to_thread(news, known.name, known.since)
            except TocsinError as error:
                log.warning("a notice could not be made", broker=known.name, reason=str(error))
                await asyncio.sleep(FIRST_RETRY_S)
                known.wake.set()
                continue
            pushed, known.pushed = known.pushed, known.pushed.after(heads)
            if heads or detached:
                told = [_head_json(head, pushed.up_to(head)) for head in heads]
                notice = {
                    "cluster": self._store.id,
                    "sequence": sequence,
                    "heads": told,
                    "detached": detached,
                }
                await self._send(known, msgspec.json.encode(notice))
            known.since = sequence

    async def _send(self, known: _Known, body: bytes) -> None:
        """Retry until it is through; what is new meanwhile is in the next notice."""
        wait_s = FIRST_RETRY_S
        while True:
            headers = {
                "Tocsin-Signature": sign_notice(self._secret, body, time.time()),
                "Content-Type": "application/json",
            }
            try:
                answer = await self._client.post(
                    f"{known.url}/v1/notices", content=body, headers=headers
                )
                answer.raise_for_status()
            except NO_ANSWER as error:
                NOTICES.labels(known.name, "failed").inc()
                log.debug("a notice did not arrive", broker=known.name, reason=str(error))
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, LONGEST_RETRY_S)
            else:
                NOTICES.labels(known.name, "sent").inc()
                return


def _head_json(head: Head, results: list[Result]) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.structs.asdict(head)
    if results:
        told["results"] = [result_json(result) for result in results]
    return told


def result_json(result: Result) -> dict[str, Any]:
    """A result as the protocol carries it; the payload is JSON already and is not parsed again."""
    return {
        "position": result.position,
        "at": result.created_at,
        "value": msgspec.Raw(result.payload),
    }


def subscription_json(subscription: Subscription) -> dict[str, Any]:
    """A frontend subscription as the protocol carries it."""
    backend = subscription.backend
    return {
        "subscription": subscription.id,
        "subscriber": subscription.subscriber,
        "broker": subscription.broker,
        "backend": backend.id,
        "channel": backend.channel,
        "arguments": backend.arguments,
        "epoch": backend.epoch,
        "head": backend.head,
        "floor": backend.floor,
        "marker": subscription.marker,
    }
