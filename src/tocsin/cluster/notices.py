"""Tell brokers up to which position their backend subscriptions have results, and send those along.

One notice is under way to a broker; what comes meanwhile is gathered for the next. They are signed,
and retried with back-off while the broker is away. One that it refuses, or that we cannot make, is
set aside: a notice that never arrives only delays, for the broker asks "what is new since" by
itself, and fetches.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import cast

import httpx
import msgspec
import structlog
from msgspec import Raw
from prometheus_client import Counter

from tocsin.backoff import Backoff
from tocsin.client.addresses import PASSING
from tocsin.client.transport import Transport, distrust, tls
from tocsin.cluster.broker_news import BrokerNews, Growth, Telling, growths, parts
from tocsin.cluster.records import head_news
from tocsin.errors import TocsinError
from tocsin.model import Channel, Departure
from tocsin.protocol.cluster import HeadNews, News, Noticed
from tocsin.protocol.unreadable import readable
from tocsin.protocol.version import version_header
from tocsin.service.tokens import sign_notice
from tocsin.storage.store.news import News as StoredNews
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store

log = structlog.get_logger()

NOTICES = Counter("tocsin_notices_total", "Notices sent to brokers", ["broker", "outcome"])

GATHER_S = 0.01  # between two notices to a broker at least
MOST_GATHER_S = 0.05  # the more a notice takes, the more should be in the next one
LOOK_S = 0.1  # how long a head may wait of a backend subscription that the broker may not have
FORGET_S = 5.0  # after which such a one may have come to a broker unheard
ANSWERED_S = 5.0
FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
NOT_NOW = frozenset({401, 408, 429, *PASSING})  # 401: until it has our secret, or the time


_decode_noticed = readable(msgspec.json.Decoder(Noticed).decode)


@dataclass
class _Known(BrokerNews):
    """A broker as its deliverer sees it."""

    url: str = ""
    sending: bool = False
    forgot_at: float = 0.0
    look_at: asyncio.TimerHandle | None = None
    distrusted: str = ""  # why its certificate was not trusted
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        super().ask()
        self.wake.set()

    def look(self) -> None:
        super().look()
        self.look_at = None
        self.wake.set()

    def grown(self, new: list[Growth], now: float) -> None:
        if now - self.forgot_at > FORGET_S and not self.sending:
            self.elsewhere.clear()
            self.forgot_at = now
        self.committed(new)
        if self.strangers and self.look_at is None:
            self.look_at = asyncio.get_running_loop().call_later(LOOK_S, self.look)
        if self.fresh:
            self.wake.set()


def _is_refused(error: httpx.HTTPError) -> bool:
    """Whether the broker answered that it will not take the notice, now or later."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in NOT_NOW


def _encoded(growth: Growth) -> Raw:
    """Once for all brokers."""
    if growth.encoded is None:
        growth.encoded = Raw(msgspec.json.encode(head_news(growth.head, growth.results)))
    return growth.encoded


class Notifier:
    """A task per broker, so that a dead one keeps nobody waiting.

    A broker hears of the backend subscriptions that it is known to have as they are committed. The
    store is asked who has come and left when that has changed, and of what nobody knows.
    """

    def __init__(self, store: Store, secret_of: Callable[[str], str], authority: str = "") -> None:
        """`secret_of`: a broker's, with which notices for it are signed. `authority` vouches for
        brokers."""
        self._store = store
        self._secret_of = secret_of
        self._authority = authority
        self._brokers: dict[str, _Known] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # A client does more than notices need.
        self._transport = Transport(verify=tls(authority))

    async def start(self) -> None:
        for broker in await asyncio.to_thread(self._store.catalog.brokers):
            await self.know(broker.name, broker.url)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._transport.aclose()

    async def know(self, broker: str, url: str) -> None:
        """From now on notices for `broker` go to `url`."""
        if broker not in self._brokers:
            since = await asyncio.to_thread(self._store.sequence)
            if broker not in self._brokers:  # by another call meanwhile
                known = self._brokers[broker] = _Known(
                    broker, since, number=secrets.randbits(48), url=url
                )
                self._tasks[broker] = asyncio.create_task(self._deliver(known))
        self._brokers[broker].url = url
        self._brokers[broker].begin_anew()

    def forget(self, broker: str) -> None:
        self._brokers.pop(broker, None)
        task = self._tasks.pop(broker, None)
        if task is not None:
            task.cancel()

    def results_committed(self, channel: Channel, committed: Committed) -> None:
        if self._brokers:
            new, now = growths(committed, pushed=channel.push), time.monotonic()
            for known in self._brokers.values():
                known.grown(new, now)

    def wake(self) -> None:
        """Something changed that brokers may have to hear of."""
        for known in self._brokers.values():
            known.ask()

    async def _deliver(self, known: _Known) -> None:
        next_at = 0.0
        while True:
            await known.wake.wait()
            # The first goes at once; what comes soon after is told together.
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
            began = time.monotonic()
            known.wake.clear()
            try:
                await self._tell_news(known)
            except Exception:  # a fault of ours: the broker asks by itself, and the next one goes
                NOTICES.labels(known.name, "set aside").inc()
                log.exception("a notice is set aside", broker=known.name)
            took_s = time.monotonic() - began
            next_at = began + max(GATHER_S, took_s + min(took_s, MOST_GATHER_S))

    async def _tell_news(self, known: _Known) -> None:
        telling = known.begin()
        try:
            answer, served = await self._ask(known, telling)
        except TocsinError as error:
            log.warning("a notice could not be made", broker=known.name, reason=str(error))
            known.put_back(telling)
            await asyncio.sleep(FIRST_RETRY_S)
            known.wake.set()
            return
        news, detached = known.finish(telling, answer, served)
        known.sending = True
        try:
            for grown, gone in parts(news, detached):
                await self._send(known, self._notice(known, grown, gone))
        finally:
            known.sending = False

    async def _ask(
        self, known: _Known, telling: Telling
    ) -> tuple[StoredNews | None, frozenset[int]]:
        """Who came to a broker and left it, and which strangers it serves."""
        stored = self._store.subscriptions
        answer, served = None, frozenset[int]()
        if telling.doubtful:
            news = partial(stored.news, known.name, known.since, heads=False)
            answer = await asyncio.to_thread(news)
        if telling.strangers:
            strangers = list(telling.strangers.of)
            served = await asyncio.to_thread(stored.served_by, known.name, strangers)
        return answer, served

    def _notice(self, known: _Known, grown: Sequence[Growth], detached: list[Departure]) -> bytes:
        heads = [_encoded(growth) for growth in grown]
        return msgspec.json.encode(
            News(
                known.since,
                cast("list[HeadNews]", heads),
                detached,
                self._store.shown_id,
                known.next_number(),
            )
        )

    async def _send(self, known: _Known, body: bytes) -> None:
        """Retry until it is through, or refused; what is new meanwhile is in the next notice."""
        backoff = Backoff(Random(), FIRST_RETRY_S, LONGEST_RETRY_S)
        while True:
            headers = {
                "Tocsin-Signature": sign_notice(self._secret_of(known.name), body, time.time()),
                "Content-Type": "application/json",
                **version_header(),
            }
            try:
                answer = await self._post(f"{known.url}/v1/notices", body, headers)
            except httpx.HTTPError as error:
                if _is_refused(error):
                    NOTICES.labels(known.name, "set aside").inc()
                    log.error("a broker refuses a notice: set aside", reason=str(error))
                    return
                NOTICES.labels(known.name, "failed").inc()
                self._tell(known, error)
                await asyncio.sleep(backoff.next_s())
            else:
                NOTICES.labels(known.name, "sent").inc()
                known.distrusted = ""
                known.answered(answer.keeps, answer.unknown)
                return

    def _tell(self, known: _Known, error: httpx.HTTPError) -> None:
        """A broker that is away is told elsewhere; one that is not trusted is told here, once."""
        reason = distrust(error) or ""
        if reason and reason != known.distrusted:
            log.warning("no notices", broker=known.name, url=known.url, reason=reason)
        else:
            log.debug("a notice did not arrive", broker=known.name, reason=str(error))
        known.distrusted = reason
        if reason:
            tls(self._authority)  # it may have been replaced

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> Noticed:
        timeout = {"timeout": httpx.Timeout(ANSWERED_S).as_dict()}
        request = httpx.Request("POST", url, content=body, headers=headers, extensions=timeout)
        answer = await self._transport.handle_async_request(request)
        try:
            said = await answer.aread()
        finally:
            await answer.aclose()
        answer.request = request
        answer.raise_for_status()
        try:
            return _decode_noticed(said)
        except msgspec.DecodeError:  # whatever it says: it took the notice
            return Noticed()
