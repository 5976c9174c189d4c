"""The broker's HTTP routes: everything a client can do without a WebSocket, and notices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.responses import Response

from tocsin.broker.effects import Answer
from tocsin.broker.server.cluster_link import Interest, News
from tocsin.broker.server.driver import Driver
from tocsin.broker.server.encoding import ResultsBody, results_body
from tocsin.broker.server.event_stream import EventLine, EventResponse
from tocsin.broker.server.overlay import NearCounts
from tocsin.broker.server.pages.calls import PageCalls, page_routes
from tocsin.broker.server.relay import RelayCalls, relay_routes
from tocsin.broker.server.trace_stream import Recording, TraceResponse
from tocsin.caching import CacheCounters
from tocsin.client.frames import DEFAULT_LIMIT, Limit, Position, SubscriptionInfo
from tocsin.errors import InvalidInput, NotFound, TocsinError, Unavailable
from tocsin.model import Beginning
from tocsin.overlay.routing import RecallCounters
from tocsin.service.tokens import verify_notice
from tocsin.service.web import Call, Route, application

LONGEST_WAIT_S = 60.0
WaitSeconds = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
SUBSCRIBE = ("subscribe",)


class NewSubscription(Struct, frozen=True):
    channel: str
    arguments: dict[str, Any] | list[Any] = msgspec.field(default_factory=dict)
    beginning: Beginning | None = msgspec.field(default=None, name="from")


class SubscriptionList(Struct, frozen=True):
    subscriptions: list[SubscriptionInfo]


class Acknowledgement(Struct, frozen=True):
    epoch: str
    position: Position


class MarkerInfo(Struct, frozen=True):
    marker: int


class BrokerInfo(Struct, frozen=True):
    """The same as a coordinator tells, so that clients may ask either."""

    name: str
    url: str
    ws_url: str


class CacheInfo(Struct, frozen=True):
    policy: str
    budget_bytes: int
    size_bytes: int
    backends: int
    hit_ratio: float
    counters: CacheCounters


class PolicyChange(Struct, frozen=True):
    policy: str


class MessagesChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays."""

    policy: str | None = None
    slots: Annotated[int, Meta(ge=0)] | None = None


class MessagesInfo(Struct, frozen=True):
    """The message cache, and what requests for old messages cost here."""

    policy: str
    slots: int
    held: int
    requests: RecallCounters


class OverlayInfo(Struct, frozen=True):
    """This broker among the others."""

    name: str
    entry: str | None  # the broker where publications enter
    neighbours: list[str]  # those it is linked with now
    filters: int  # filter subscriptions that it serves
    messages: MessagesInfo
    near: NearCounts


class Recalling(Struct, frozen=True):
    dataset: str
    where: str = ""
    wait_s: Annotated[float, Meta(ge=0, le=10)] = 0.2


class RecalledRecord(Struct, frozen=True):
    position: int
    at: float
    record: dict[str, Any]
    hops: int  # how far away it was found …
    took_s: float  # … and how long after the request its first response came


class Recalled(Struct, frozen=True):
    """In order of positions; what no cache holds is not among them."""

    found: list[RecalledRecord]


class Waiter:
    """A call that waits for the core's answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(self, answer: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def failed(self, error: TocsinError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Rest:
    """The handlers. `waiting` are calls that must be let go when the broker stops."""

    def __init__(self, driver: Driver, info: BrokerInfo, stall_s: float) -> None:
        self._driver = driver
        self._info = info
        self._stall_s = stall_s
        self.relay = RelayCalls(driver.link)
        self.pages = PageCalls(driver.pages, self._owner, stall_s, self._count_stalled)
        self.lines: set[EventLine | Recording] = set()
        self.waiting: set[Waiter] = set()

    def app(self) -> Starlette:
        settings = self._driver.settings
        return application(
            f"Tocsin broker {self._info.name}",
            _routes(self),
            secret=settings.secret,
            limit_bytes=settings.body_limit_bytes,
        )

    def _owner(self, subscription: int) -> str | None:
        frontend = self._driver.core.attachments.frontends.get(subscription)
        return None if frontend is None else frontend.subscriber

    def _count_stalled(self, stalled: bool) -> None:
        self._driver.counts.stalled += stalled

    def let_go(self) -> None:
        """The broker stops: nobody waits any longer."""
        for waiter in self.waiting:
            waiter.failed(Unavailable("the broker is shutting down", hint="reconnect"))

    async def broker(self, _: Call) -> BrokerInfo:
        return self._info

    async def subscribe(self, call: Call) -> SubscriptionInfo:
        wanted: NewSubscription = await call.body(NewSubscription)
        self._check_loaded()
        subject = call.identity.subject
        interest = Interest(wanted.channel, wanted.arguments, wanted.beginning)
        return await self._driver.subscribe(subject, interest)

    async def subscriptions(self, call: Call) -> SubscriptionList:
        self._check_loaded()
        return SubscriptionList(await self._driver.attach(call.identity.subject))

    async def unsubscribe(self, call: Call) -> dict[str, Any]:
        self._check_loaded()
        await self._driver.unsubscribe(call.identity.subject, call.path["id"])
        return {}

    async def results(self, call: Call) -> ResultsBody:
        after = call.query("after", Position)
        epoch = call.query("epoch", str)
        if after is not None and epoch is None:
            raise InvalidInput(
                "after needs the epoch it belongs to",
                field="epoch",
                hint="send the epoch that came with the position",
            )
        limit = call.query("limit", Limit, DEFAULT_LIMIT)
        wait_s = call.query("wait_s", WaitSeconds, 0.0)
        await self._ensure_here(call)

        def ask(asker: Waiter) -> None:
            self._driver.get(
                asker,
                call.identity.subject,
                call.path["id"],
                after=after,
                epoch=epoch,
                limit=limit,
                wait_until=time.monotonic() + wait_s if wait_s else None,
            )

        answer: Answer = await self._wait(ask)
        self._driver.counts.delivered += len(answer.results)
        return results_body(answer)

    async def ack(self, call: Call) -> MarkerInfo:
        taken: Acknowledgement = await call.body(Acknowledgement)
        await self._ensure_here(call)

        def ask(asker: Waiter) -> None:
            self._driver.ack(
                call.identity.subject,
                call.path["id"],
                taken.epoch,
                taken.position,
                request=asker,
            )

        return MarkerInfo(await self._wait(ask))

    async def events(self, call: Call) -> Response:
        inline = call.query("inline", int, 0)
        if inline not in (0, 1):
            raise InvalidInput("inline is 0 or 1", field="inline")
        self._check_loaded()
        most_bytes = self._driver.settings.connection_bytes
        line = EventLine(call.identity, inline == 1, most_bytes)
        await self._driver.attach(call.identity.subject, line)
        self.lines.add(line)

        def gone(stalled: bool) -> None:
            self._driver.counts.stalled += stalled
            self.lines.discard(line)
            self._driver.left(line)

        return EventResponse(line, self._stall_s, gone)

    async def notices(self, call: Call) -> dict[str, Any]:
        body = await call.bytes()
        signature = call.request.headers.get("tocsin-signature")
        verify_notice(self._driver.settings.secret, body, signature, time.time())
        try:
            notice = msgspec.json.decode(body, type=News)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the notice does not fit: {error}") from None
        self._driver.notice(notice)
        return {}

    async def cache(self, _: Call) -> CacheInfo:
        core = self._driver.core
        counters = core.cache.counters
        return CacheInfo(
            policy=core.cache.policy.text,
            budget_bytes=core.cache.budget_bytes,
            size_bytes=core.cache.size_bytes,
            backends=len(core.attachments.backends),
            hit_ratio=counters.hit_ratio,
            counters=counters,
        )

    async def change_cache(self, call: Call) -> CacheInfo:
        change: PolicyChange = await call.body(PolicyChange)
        self._driver.set_policy(change.policy)
        return await self.cache(call)

    async def overlay(self, _: Call) -> OverlayInfo:
        overlay = self._driver.overlay
        return OverlayInfo(
            name=overlay.name,
            entry=overlay.entry,
            neighbours=sorted(overlay.router.neighbours),
            filters=len(self._driver.core.attachments.filters),
            messages=self._messages(),
            near=overlay.counts,
        )

    async def change_messages(self, call: Call) -> MessagesInfo:
        change: MessagesChange = await call.body(MessagesChange)
        overlay = self._driver.overlay
        if change.policy is not None:
            overlay.set_policy(change.policy)
        if change.slots is not None:
            overlay.messages.resize(change.slots)
        return self._messages()

    def _messages(self) -> MessagesInfo:
        overlay = self._driver.overlay
        return MessagesInfo(
            policy=overlay.policy.text,
            slots=overlay.messages.slots,
            held=len(overlay.messages),
            requests=overlay.router.counters,
        )

    async def recall(self, call: Call) -> Recalled:
        asked: Recalling = await call.body(Recalling)
        self._check_loaded()
        wanted = await self._driver.link.bind_filter(asked.dataset, asked.where)
        found = await self._driver.overlay.recall(wanted, asked.wait_s)
        records = []
        for one in found:
            publication, hops = one.recall.publication, one.recall.hops
            records.append(
                RecalledRecord(
                    publication.position, publication.at, publication.record, hops, one.took_s
                )
            )
        return Recalled(sorted(records, key=lambda one: one.position))

    async def trace(self, call: Call) -> Response:
        self._check_loaded()
        recording = Recording(self._driver, call.identity)
        self.lines.add(recording)

        def gone(_: bool) -> None:
            self.lines.discard(recording)
            recording.close()

        return TraceResponse(recording, self._stall_s, gone)

    def _check_loaded(self) -> None:
        if self._driver.store is None:
            raise Unavailable("this broker waits for the cluster", hint="try again in a moment")

    async def _ensure_here(self, call: Call) -> None:
        """A client without a connection is attached by its first question."""
        self._check_loaded()
        subject, number = call.identity.subject, call.path["id"]
        known = self._driver.core.attachments.frontends.get(number)
        if known is not None and known.subscriber == subject:
            return
        mine = await self._driver.attach(subject)
        if number not in [info.subscription for info in mine]:
            raise NotFound(f"you have no subscription {number}", field="subscription")

    async def _wait(self, ask: Callable[[Waiter], None]) -> Any:
        waiter = Waiter()
        self.waiting.add(waiter)
        try:
            ask(waiter)
            return await waiter.answer
        finally:
            self.waiting.discard(waiter)


def _routes(rest: Rest) -> list[Route]:
    one = "/v1/subscriptions/{id:int}"
    any_dict = dict[str, Any]
    return [
        Route(
            "GET",
            "/v1/broker",
            rest.broker,
            ("subscribe", "publish"),
            "This broker",
            None,
            BrokerInfo,
        ),
        *relay_routes(rest.relay),
        Route(
            "POST",
            "/v1/subscriptions",
            rest.subscribe,
            SUBSCRIBE,
            "Subscribe to a channel",
            NewSubscription,
            SubscriptionInfo,
        ),
        Route(
            "GET",
            "/v1/subscriptions",
            rest.subscriptions,
            SUBSCRIBE,
            "Move your subscriptions here and list them",
            None,
            SubscriptionList,
        ),
        Route("DELETE", one, rest.unsubscribe, SUBSCRIBE, "Unsubscribe", None, any_dict),
        Route(
            "GET",
            one + "/results",
            rest.results,
            SUBSCRIBE,
            "Results after a cursor, or after the marker; wait_s waits for some",
        ),
        Route(
            "POST",
            one + "/ack",
            rest.ack,
            SUBSCRIBE,
            "Acknowledge everything up to a position; answered when durable",
            Acknowledgement,
            MarkerInfo,
        ),
        Route("GET", "/v1/events", rest.events, SUBSCRIBE, "Signals or results as they come (SSE)"),
        Route("POST", "/v1/notices", rest.notices, None, "Signed notices of the cluster", News),
        Route("GET", "/v1/cache", rest.cache, (), "The result cache", None, CacheInfo),
        Route(
            "PUT",
            "/v1/cache",
            rest.change_cache,
            ("admin",),
            "Change the cache policy",
            PolicyChange,
            CacheInfo,
        ),
        Route("GET", "/v1/overlay", rest.overlay, (), "This broker's links", None, OverlayInfo),
        Route(
            "PUT",
            "/v1/overlay/messages",
            rest.change_messages,
            ("admin",),
            "Change the message cache's policy, or its number of slots",
            MessagesChange,
            MessagesInfo,
        ),
        Route(
            "POST",
            "/v1/recall",
            rest.recall,
            SUBSCRIBE,
            "Old records of a routed dataset, as far as the brokers' caches hold them",
            Recalling,
            Recalled,
        ),
        Route(
            "GET",
            "/v1/trace",
            rest.trace,
            ("admin",),
            "Record what happens here, without names, until you hang up (tocsin lab trace record)",
        ),
        *page_routes(rest.pages),
    ]
