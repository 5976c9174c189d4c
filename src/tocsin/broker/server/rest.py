"""The broker's HTTP calls: everything a client can do without a WebSocket, and notices."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw
from starlette.applications import Starlette
from starlette.responses import Response

from tocsin.broker.machine import effects
from tocsin.broker.machine.effects import (
    Acked,
    Answer,
    Attached,
    Subscribed,
    Unsubscribed,
)
from tocsin.broker.machine.events import Cursor
from tocsin.broker.server.admitted import Admitted
from tocsin.broker.server.driver import Driver
from tocsin.broker.server.encoding import info_of, results_body
from tocsin.broker.server.event_stream import EventLine, EventResponse
from tocsin.broker.server.pages.calls import PageCalls
from tocsin.broker.server.relay import RelayCalls
from tocsin.broker.server.routes import routes
from tocsin.broker.server.trace_stream import Recording, TraceResponse
from tocsin.errors import (
    InvalidInput,
    TocsinError,
    Unauthenticated,
    Unavailable,
)
from tocsin.model import Subscription
from tocsin.policies.message import parse_message_policy
from tocsin.protocol.broker import (
    BrokerInfo,
    CacheInfo,
    MarkerInfo,
    MessagesChange,
    MessagesInfo,
    OverlayInfo,
    PolicyChange,
    Recalled,
    RecalledRecord,
    Recalling,
)
from tocsin.protocol.client import (
    UNAUTHENTICATED,
    Acknowledgement,
    Interest,
    Results,
    SubscriptionInfo,
    SubscriptionList,
)
from tocsin.protocol.cluster import News, Noticed
from tocsin.protocol.health import Done
from tocsin.protocol.queries import EventsQuery, ResultsQuery
from tocsin.service.exposure import exposure_of
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import check_signature, verify_notice
from tocsin.service.unverified import Unverified
from tocsin.service.web import Call, application

T = TypeVar("T")
REGISTER_EVERY_S = 30.0
MOST_WAITING = 20_000  # calls, those included whose caller has left: what they ask for is held


class Waiter(Generic[T]):
    """A call that waits for the machine's answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def answered(self, answer: T) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def failed(self, error: TocsinError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Rest:
    """The handlers. `waiting` are calls that must be let go when the broker stops."""

    def __init__(
        self,
        driver: Driver,
        info: BrokerInfo,
        stall_s: float,
        verifier: TokenVerifier,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._driver = driver
        self._info = info
        self._stall_s = stall_s
        self.trouble = trouble
        self._unverified = Unverified()
        self.verifier = verifier
        self.relay = RelayCalls(driver.link, driver.relaying)
        self.pages = PageCalls(
            driver.pages, driver.link.may_read, self._owner, stall_s, self._count_stalled
        )
        self._admitted = Admitted()
        self.streams: set[EventLine | Recording] = set()
        self.waiting: set[Waiter[Any]] = set()

    def app(self, inner: bool = False) -> Starlette:
        settings = self._driver.settings
        return application(
            f"Tocsin broker {self._info.name}",
            routes(self),
            verifier=self.verifier,
            limit_bytes=settings.body_limit_bytes,
            trouble=self._trouble,
            exposure=exposure_of(settings),
            inner=inner,
        )

    def _trouble(self) -> str | None:
        refused = self._driver.link.refused
        if refused is not None:
            return f"the cluster refuses this broker: {refused}"
        return self.trouble()

    def _owner(self, subscription: int) -> str | None:
        frontend = self._driver.core.table.frontends.get(subscription)
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
        interest: Interest = await call.body(Interest)
        self._check_loaded()

        def ask(waiter: Waiter[Subscribed]) -> None:
            self._driver.perform(
                self._driver.machine.subscribe(
                    waiter, call.identity.subject, interest, time.monotonic(), token=_token(call)
                )
            )

        self._driver.shown.arriving(call.identity)
        subscription = (await self._wait(ask)).subscription
        self._driver.shown.arrived(call.identity)
        self._admitted.subscribed(_token(call), subscription.id, time.monotonic())
        return info_of(subscription)

    async def subscriptions(self, call: Call) -> SubscriptionList:
        self._check_loaded()
        subscriptions = await self._attach(call)
        return SubscriptionList([info_of(subscription) for subscription in subscriptions])

    async def unsubscribe(self, call: Call) -> Done:
        self._check_loaded()

        def ask(waiter: Waiter[Unsubscribed]) -> None:
            self._driver.perform(
                self._driver.machine.unsubscribe(
                    waiter, call.identity.subject, call.path["id"], time.monotonic()
                )
            )

        await self._wait(ask)
        return Done()

    async def results(self, call: Call) -> Results[Raw]:
        query = call.query(ResultsQuery)
        after = None if query.after is UNSET else query.after
        epoch = None if query.epoch is UNSET else query.epoch
        if after is not None and epoch is None:
            raise InvalidInput(
                "after needs the epoch it belongs to",
                field="epoch",
                hint="send the epoch that came with the position",
            )
        await self._ensure_here(call)

        def ask(waiter: Waiter[Answer]) -> None:
            now = time.monotonic()
            self._driver.perform(
                self._driver.machine.get(
                    waiter,
                    call.identity.subject,
                    call.path["id"],
                    now,
                    Cursor(after, epoch),
                    limit=query.limit,
                    wait_until=now + query.wait_s if query.wait_s else None,
                )
            )

        answer = await self._wait(ask)
        reason = self.verifier.refusal(call.identity)
        if reason is not None:  # while it waited
            raise Unauthenticated(reason)
        self._driver.counts.delivered += len(answer.results)
        return results_body(answer)

    async def ack(self, call: Call) -> MarkerInfo:
        taken: Acknowledgement = await call.body(Acknowledgement)
        await self._ensure_here(call)

        def ask(waiter: Waiter[Acked]) -> None:
            subscriber, number = call.identity.subject, call.path["id"]
            now = time.monotonic()
            self._driver.perform(
                self._driver.machine.ack(
                    subscriber, number, taken.epoch, taken.position, now, request=waiter
                )
            )

        return MarkerInfo((await self._wait(ask)).position)

    async def events(self, call: Call) -> Response:
        inline = call.query(EventsQuery).inline
        self._check_loaded()
        most_bytes = self._driver.settings.connection_bytes
        stream = EventLine(call.identity, _token(call), inline == 1, most_bytes)
        self._driver.connect(stream, patient=False)
        try:
            await stream.begun
        except BaseException:
            self._driver.left(stream)
            raise
        self.streams.add(stream)

        def gone(stalled: bool) -> None:
            self._driver.counts.stalled += stalled
            self.streams.discard(stream)
            self._driver.left(stream)

        return EventResponse(stream, self._stall_s, gone)

    async def notices(self, call: Call) -> Noticed:
        signature = call.request.headers.get("tocsin-signature")
        check_signature(signature, time.time())
        call.check_announced()
        body = await self._unverified.read(call.request.stream(), call.limit_bytes)
        link = self._driver.link
        try:
            secret = link.notice_secret or self._driver.settings.secret
            verify_notice(secret, body, signature, time.time())
        except Unauthenticated:
            self._register_again()
            raise
        call.known()
        try:
            notice = msgspec.json.decode(body, type=News)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the notice does not fit: {error}") from None
        return self._driver.notice(notice)

    def _register_again(self) -> None:
        """The cluster may have another secret for our notices than when it handed one out."""
        link, now = self._driver.link, time.monotonic()
        if link.notice_secret is not None and now - link.registered_at >= REGISTER_EVERY_S:
            link.registered_at = now
            self._driver.spawn(self._register())

    async def _register(self) -> None:
        with contextlib.suppress(TocsinError):  # the next notice, and news, make up for it
            await self._driver.link.register(self._info.url)

    def close_revoked(self) -> None:
        """End streams whose token is no longer taken."""
        for stream in list(self.streams):
            reason = self.verifier.refusal(stream.identity)
            if reason is not None:
                stream.close(UNAUTHENTICATED, reason)

    async def cache(self, _: Call) -> CacheInfo:
        core = self._driver.core
        counters = core.cache.counters
        return CacheInfo(
            policy=core.cache.policy.text,
            budget_bytes=core.cache.budget_bytes,
            size_bytes=core.cache.size_bytes,
            backends=len(core.table.backends),
            hit_ratio=counters.hit_ratio,
            counters=msgspec.structs.asdict(counters),
        )

    async def change_cache(self, call: Call) -> CacheInfo:
        change: PolicyChange = await call.body(PolicyChange)
        self._driver.set_policy(change.policy)
        return await self.cache(call)

    async def overlay(self, _: Call) -> OverlayInfo:
        machine = self._driver.machine
        return OverlayInfo(
            name=machine.config.name,
            entry=machine.entry,
            neighbours=sorted(machine.router.neighbours),
            filters=len(machine.core.table.filters),
            messages=self._messages(),
            from_neighbours=msgspec.to_builtins(machine.neighbour_counts),
        )

    async def change_messages(self, call: Call) -> MessagesInfo:
        change: MessagesChange = await call.body(MessagesChange)
        machine = self._driver.machine
        if change.policy is not None:
            machine.set_message_policy(parse_message_policy(change.policy))
        if change.slots is not None:
            machine.resize_messages(change.slots)
        return self._messages()

    def _messages(self) -> MessagesInfo:
        machine = self._driver.machine
        return MessagesInfo(
            policy=machine.message_policy.text,
            slots=machine.messages.slots,
            held=len(machine.messages),
            requests=msgspec.structs.asdict(machine.router.counters),
        )

    async def recall(self, call: Call) -> Recalled:
        request: Recalling = await call.body(Recalling)
        self._check_loaded()
        link = self._driver.link
        wanted = await link.bind_filter(request.dataset, request.where, _token(call))

        def ask(waiter: Waiter[effects.Recalled]) -> None:
            self._driver.recall(waiter, wanted, request.wait_s)

        records = []
        for recalled in (await self._wait(ask)).publications:
            publication = recalled.publication
            records.append(
                RecalledRecord(
                    publication.position,
                    publication.at,
                    publication.record,
                    recalled.hops,
                    recalled.took_s,
                )
            )
        return Recalled(sorted(records, key=lambda record: record.position))

    async def trace(self, call: Call) -> Response:
        self._check_loaded()
        recording = Recording(self._driver, call.identity)
        self.streams.add(recording)

        def gone(_: bool) -> None:
            self.streams.discard(recording)
            recording.close()

        return TraceResponse(recording, self._stall_s, gone)

    def _check_loaded(self) -> None:
        self._driver.machine.require_loaded()

    async def _ensure_here(self, call: Call) -> None:
        """A client without a connection is attached by its first question: the cluster has seen
        its token then."""
        self._check_loaded()
        subject, number = call.identity.subject, call.path["id"]
        served = self._driver.machine.serves(subject, number)
        if not served or not self._admitted.holds(_token(call), number, time.monotonic()):
            await self._attach(call, needs=number)

    async def _attach(self, call: Call, needs: int | None = None) -> list[Subscription]:
        token = _token(call)

        def ask(waiter: Waiter[Attached]) -> None:
            self._driver.attach(waiter, call.identity.subject, token, needs=needs)

        self._driver.shown.arriving(call.identity)
        subscriptions = (await self._wait(ask)).subscriptions
        self._driver.shown.arrived(call.identity)
        numbers = [subscription.id for subscription in subscriptions]
        self._admitted.attached(token, numbers, time.monotonic())
        return subscriptions

    async def _wait(self, ask: Callable[[Waiter[T]], None]) -> T:
        if len(self.waiting) >= MOST_WAITING:
            raise Unavailable("too many calls wait at this broker", hint="try again in a moment")
        waiter: Waiter[T] = Waiter()
        self.waiting.add(waiter)
        try:
            ask(waiter)
            return await waiter.answer
        finally:
            self.waiting.discard(waiter)


def _token(call: Call) -> str:
    """What the caller showed, for the cluster to look at."""
    return call.token or ""
