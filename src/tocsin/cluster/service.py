"""The cluster's REST service: its routes and what they carry."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from starlette.applications import Starlette

from tocsin.cluster.attachments.calls import AttachmentCalls, attachment_routes, refused_upload
from tocsin.cluster.attachments.multipart_publication import MultipartPublication
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.formats import format_of_content_type, read
from tocsin.cluster.intake import RecordValidator, request_key
from tocsin.cluster.opening import opened_store
from tocsin.cluster.records import head_news, result_info, subscription_info
from tocsin.cluster.statements import execute
from tocsin.errors import (
    Conflict,
    Damaged,
    Forbidden,
    InvalidInput,
    NotFound,
    RecordError,
    StatementError,
    TocsinError,
    Unconfirmed,
)
from tocsin.model import Channel, Dataset, Subscription, filtered_dataset
from tocsin.protocol.client import SubscriptionInfo, SubscriptionList
from tocsin.protocol.cluster import (
    AttachRequest,
    BoundFilter,
    BrokerSubscriptions,
    ChannelList,
    ClusterStatus,
    DatasetList,
    LogRange,
    Markers,
    News,
    RangeRequest,
    RangeRequests,
    Registered,
    RegisteredBrokers,
    Registration,
    ResultRange,
    ResultRanges,
    RoutedLine,
    SubscriptionRequest,
    UnknownMarkers,
)
from tocsin.protocol.fields import MOST_RESULTS
from tocsin.protocol.health import Done
from tocsin.protocol.publishing import Published, Rejection, StatementResults, Statements
from tocsin.protocol.queries import FilterQuery, LogQuery, NewsQuery, SubscriberQuery
from tocsin.service.multipart import is_form
from tocsin.service.openapi import Media
from tocsin.service.serving import listen, port_of, serving, until_stopped
from tocsin.service.streaming import StreamResponse
from tocsin.service.web import Call, Route, application, json_response
from tocsin.settings import Settings
from tocsin.storage.store.results import Range
from tocsin.storage.store.results import ResultRange as StoredRange

log = structlog.get_logger()

MOST_RANGES = 1000
STALL_S = 10.0  # how long a reader of routed records may leave a piece untaken


class Calls:
    """One method per route."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    async def statements(self, call: Call) -> Any:
        request: Statements = await call.body(Statements)
        key = call.request.headers.get("idempotency-key")
        return StatementResults(
            await execute(self._cluster, request.sql, call.identity, request.subscriber, key)
        )

    async def records(self, call: Call) -> Any:
        if is_form(call.request.headers.get("content-type")):
            return await self._record_with_attachments(call)
        kind = format_of_content_type(call.request.headers.get("content-type"))
        body = await call.bytes()
        publisher = call.identity.subject
        given = call.request.headers.get("idempotency-key")
        published = await self._cluster.publish(
            call.path["name"],
            read(body, kind),
            publisher=publisher,
            source="http",
            key=None if given is None else request_key(given, publisher, kind, body),
        )
        return _published(published)

    async def _record_with_attachments(self, call: Call) -> Any:
        settings, publisher = self._cluster.settings, call.identity.subject
        limits = settings.attachment_limit_bytes, settings.record_limit_bytes
        try:
            dataset = await asyncio.to_thread(self._store.catalog.dataset, call.path["name"])
            publication = MultipartPublication(dataset, self._cluster.attachments, *limits)
            try:
                record = await publication.receive(call)
                validator = RecordValidator(
                    dataset, settings.record_limit_bytes, publication.announced()
                )
                if not isinstance(validator.encode(record), Rejection):
                    await publication.commit()
            finally:
                await publication.discard()
        except TocsinError as error:
            return refused_upload(error)
        given = call.request.headers.get("idempotency-key")
        said = msgspec.json.encode(record.fields)
        published = await self._cluster.publish(
            dataset.name,
            [record],
            publisher=publisher,
            source="http",
            key=None if given is None else request_key(given, publisher, "multipart", said),
        )
        return _published(published)

    async def datasets(self, _: Call) -> Any:
        return DatasetList(await asyncio.to_thread(self._store.catalog.datasets))

    async def dataset(self, call: Call) -> Any:
        return await asyncio.to_thread(self._store.catalog.dataset, call.path["name"])

    async def channels(self, _: Call) -> Any:
        return ChannelList(await asyncio.to_thread(self._store.catalog.channels))

    async def channel(self, call: Call) -> Any:
        return await asyncio.to_thread(self._store.catalog.channel, call.path["name"])

    async def brokers(self, _: Call) -> Any:
        return RegisteredBrokers(await asyncio.to_thread(self._store.catalog.brokers))

    async def put_broker(self, call: Call) -> Any:
        registration: Registration = await call.body(Registration)
        broker = await self._cluster.put_broker(call.path["name"], registration.url)
        return Registered(broker.name, self._store.id)

    async def broker_subscriptions(self, call: Call) -> Any:
        sequence, subscriptions = await asyncio.to_thread(
            self._store.subscriptions.of_broker, call.path["name"]
        )
        infos = await self._infos(subscriptions)
        return BrokerSubscriptions(infos, sequence=sequence, store_id=self._store.id)

    async def attach(self, call: Call) -> Any:
        request: AttachRequest = await call.body(AttachRequest)
        subscriptions = await self._cluster.subscriptions.attach(
            request.subscriber, call.path["name"]
        )
        return SubscriptionList(await self._infos(subscriptions))

    async def news(self, call: Call) -> Any:
        since = call.query(NewsQuery).since
        sequence, heads, detached = await asyncio.to_thread(
            self._store.subscriptions.news, call.path["name"], since
        )
        return News(sequence, [head_news(head) for head in heads], detached, self._store.id)

    async def subscriptions(self, call: Call) -> Any:
        subscriber = self._whose(call, call.query(SubscriberQuery).subscriber)
        subscriptions = await self._cluster.subscriptions.of_subscriber(subscriber)
        return SubscriptionList(await self._infos(subscriptions))

    async def subscribe(self, call: Call) -> Any:
        request: SubscriptionRequest = await call.body(SubscriptionRequest)
        subscriber = self._whose(call, request.subscriber)
        subscription = await self._cluster.subscriptions.subscribe(
            subscriber,
            request.channel,
            request.arguments,
            request.broker,
            None if request.beginning is UNSET else request.beginning,
        )
        (info,) = await self._infos([subscription])
        return info

    async def _infos(self, subscriptions: Sequence[Subscription]) -> list[SubscriptionInfo]:
        names = {subscription.backend.channel for subscription in subscriptions}
        if any(filtered_dataset(name) is not None for name in names):
            subscriptions = await asyncio.to_thread(self._cluster.routing.present, subscriptions)
        channels = await asyncio.to_thread(self._channels, names)
        return [
            subscription_info(subscription, channels.get(subscription.backend.channel))
            for subscription in subscriptions
        ]

    def _channels(self, names: set[str]) -> dict[str, Channel]:
        channels = {}
        for name in names:
            with contextlib.suppress(NotFound):  # dropped meanwhile
                channels[name] = self._store.catalog.channel(name)
        return channels

    async def unsubscribe(self, call: Call) -> Any:
        subscriber = self._whose(call, call.query(SubscriberQuery).subscriber)
        await self._cluster.subscriptions.unsubscribe(call.path["number"], subscriber)
        return Done()

    def _whose(self, call: Call, named: str | UnsetType | None) -> str:
        """Brokers and admins act for others; everyone else for themselves."""
        if named is None or named is UNSET or named == call.identity.subject:
            return call.identity.subject
        if not call.identity.scopes & {"broker", "admin"}:
            raise Forbidden("this token speaks for its own subject only", field="subscriber")
        return named

    async def results(self, call: Call) -> Any:
        request: RangeRequests = await call.body(RangeRequests)
        if len(request.ranges) > MOST_RANGES:
            raise InvalidInput(f"at most {MOST_RANGES} ranges at once", field="ranges")
        for wanted in request.ranges:
            if not 0 < wanted.limit <= MOST_RESULTS:
                raise InvalidInput(f"limit must be 1 to {MOST_RESULTS}", field="limit")
        return ResultRanges(await asyncio.to_thread(self._ranges, request.ranges))

    def _ranges(self, requests: list[RangeRequest]) -> list[ResultRange]:
        ranges = [
            Range(request.backend, request.after, request.upto, request.limit)
            for request in requests
        ]
        stored = self._store.results.read_many(ranges)
        filtered = self._cluster.routing.answers(ranges, stored)
        return [
            answer or _range_answer(wanted, part)
            for wanted, part, answer in zip(ranges, stored, filtered, strict=True)
        ]

    async def log(self, call: Call) -> Any:
        query = call.query(LogQuery)
        upto = None if query.upto is UNSET else query.upto
        read = self._cluster.routing.log_range
        return await asyncio.to_thread(read, call.path["name"], query.after, upto, query.limit)

    async def filter(self, call: Call) -> Any:
        bound = self._cluster.routing.filter
        return await asyncio.to_thread(bound, call.path["name"], call.query(FilterQuery).where)

    async def routed(self, call: Call) -> Any:
        stream = self._cluster.routed.stream(call.identity)
        return StreamResponse(stream, STALL_S, stream.gone)

    async def markers(self, call: Call) -> Any:
        request: Markers = await call.body(Markers)
        markers = [
            (marker.subscription, marker.epoch, marker.position) for marker in request.markers
        ]
        put, ends = self._store.subscriptions.put_markers, self._cluster.log.ends()
        return UnknownMarkers(await asyncio.to_thread(put, markers, ends))

    async def status(self, _: Call) -> Any:
        return ClusterStatus(
            ready=self._cluster.ready,
            store_id=self._store.id,
            waits_for=self._store.waits_for,
            trouble=self._cluster.trouble,
        )


def _range_answer(wanted: Range, stored: StoredRange | None) -> ResultRange:
    if stored is None:
        return ResultRange(backend=wanted.backend, gone=True)
    return ResultRange(
        backend=stored.backend,
        epoch=stored.epoch,
        floor=stored.floor,
        head=stored.head,
        results=[result_info(result) for result in stored.results],
    )


def _published(published: Published) -> Any:
    nothing_fits = published.rejected and not published.accepted
    return json_response(published, 422 if nothing_fits else 200)


def routes(cluster: Cluster) -> list[Route]:
    """Everything the cluster answers."""
    calls = Calls(cluster)
    attachments = AttachmentCalls(cluster.attachments, cluster.settings.attachment_limit_bytes)
    return [
        *_catalog_routes(calls),
        *_publishing_routes(calls),
        *_broker_routes(calls),
        *_subscription_routes(calls),
        *attachment_routes(attachments),
    ]


def _catalog_routes(c: Calls) -> list[Route]:
    ready = "whether Spark is up, and what is waited for"
    return [
        Route("GET", "/v1/status", c.status, None, ready, answers=ClusterStatus),
        Route("GET", "/v1/datasets", c.datasets, (), "all datasets", answers=DatasetList),
        Route("GET", "/v1/datasets/{name}", c.dataset, (), "one dataset", answers=Dataset),
        Route("GET", "/v1/channels", c.channels, (), "all channels", answers=ChannelList),
        Route("GET", "/v1/channels/{name}", c.channel, (), "one channel", answers=Channel),
        Route("GET", "/v1/brokers", c.brokers, (), "all brokers", answers=RegisteredBrokers),
    ]


def _publishing_routes(c: Calls) -> list[Route]:
    return [
        Route(
            "POST",
            "/v1/statements",
            c.statements,
            (),
            "run statements; each needs its own scope",
            Statements,
            StatementResults,
            errors=(StatementError, NotFound, Conflict, Unconfirmed),
        ),
        Route(
            "POST",
            "/v1/datasets/{name}/records",
            c.records,
            ("publish",),
            "publish records: JSON, JSON lines, CSV or Parquet by Content-Type",
            Media("application/x-ndjson"),
            Published,
            also={422: Published},
            errors=(RecordError, Unconfirmed),
        ),
    ]


def _broker_routes(c: Calls) -> list[Route]:
    broker = ("broker",)
    mine = "/v1/brokers/{name}"
    registering = "say where a broker's notices go"
    arriving = "a subscriber has come to this broker: move everything of theirs there"
    news = "what is new for a broker since a sequence"
    return [
        Route(
            "PUT", mine, c.put_broker, ("admin", "broker"), registering, Registration, Registered
        ),
        Route(
            "GET",
            mine + "/subscriptions",
            c.broker_subscriptions,
            broker,
            "the frontend subscriptions that a broker serves",
            answers=BrokerSubscriptions,
        ),
        Route(
            "POST", mine + "/attach", c.attach, broker, arriving, AttachRequest, SubscriptionList
        ),
        Route("GET", mine + "/news", c.news, broker, news, answers=News, query=NewsQuery),
        Route(
            "POST",
            "/v1/results",
            c.results,
            broker,
            "results by ranges of positions",
            RangeRequests,
            ResultRanges,
        ),
        Route(
            "POST",
            "/v1/markers",
            c.markers,
            broker,
            "store acknowledgements",
            Markers,
            UnknownMarkers,
        ),
        Route(
            "GET",
            "/v1/datasets/{name}/log",
            c.log,
            broker,
            "records of a dataset by a range of positions",
            answers=LogRange,
            query=LogQuery,
            errors=(Damaged,),
        ),
        Route(
            "GET",
            "/v1/routed",
            c.routed,
            broker,
            "records of routed datasets as they come (lines)",
            answers=Media("application/x-ndjson", RoutedLine),
        ),
    ]


def _subscription_routes(c: Calls) -> list[Route]:
    subscribing = ("subscribe", "broker")
    return [
        Route(
            "GET",
            "/v1/subscriptions",
            c.subscriptions,
            ("subscribe", "admin", "broker"),
            "one's subscriptions",
            answers=SubscriptionList,
            query=SubscriberQuery,
        ),
        Route(
            "POST",
            "/v1/subscriptions",
            c.subscribe,
            subscribing,
            "subscribe; a repeat gives the same subscription",
            SubscriptionRequest,
            SubscriptionInfo,
            errors=(NotFound,),
        ),
        Route(
            "DELETE",
            "/v1/subscriptions/{number:int}",
            c.unsubscribe,
            subscribing,
            "end a subscription",
            answers=Done,
            query=SubscriberQuery,
        ),
        Route(
            "GET",
            "/v1/datasets/{name}/filter",
            c.filter,
            subscribing,
            "a filter on a routed dataset, as brokers match it",
            answers=BoundFilter,
            query=FilterQuery,
            errors=(StatementError,),
        ),
    ]


def app(cluster: Cluster) -> Starlette:
    settings = cluster.settings
    return application(
        "Tocsin data cluster",
        routes(cluster),
        secret=settings.secret,
        limit_bytes=settings.body_limit_bytes,
        trouble=lambda: cluster.trouble,
    )


async def run(settings: Settings) -> None:
    """Serve until asked to stop, or until something breaks that a restart must mend."""
    # The threads that talk to Spark make hundreds of tiny calls a run; at Python's default each
    # would wait up to 5 ms for the busy event loop.
    sys.setswitchinterval(0.0002)
    listener = listen(settings.host, settings.cluster_port, "cluster_port")
    with await opened_store(settings, listener) as store:
        async with Cluster(settings, store) as cluster, serving(app(cluster), listener):
            url = f"http://{settings.host}:{port_of(listener)}"
            log.info("the cluster listens", url=url, data=str(settings.data))
            try:
                await _until_an_end(until_stopped(), cluster.until_broken())
            finally:
                cluster.routed.close()  # nobody waits for the end of what has none
            log.info("the cluster stops")


async def _until_an_end(*ends: Coroutine[Any, Any, None]) -> None:
    """Wait for the first, and raise what it raises."""
    tasks = [asyncio.create_task(end) for end in ends]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()
