"""What the cluster does for each of its routes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from tocsin.cluster.attachments.calls import refused_upload
from tocsin.cluster.attachments.multipart_publication import MultipartPublication
from tocsin.cluster.bound import claims_of
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.records import head_news, result_info
from tocsin.cluster.statements import execute
from tocsin.cluster.subscription_calls import DescribedSubscriptions
from tocsin.errors import (
    Forbidden,
    InvalidInput,
    TocsinError,
)
from tocsin.intake.body_limits import Limits
from tocsin.intake.formats import format_of_content_type, read
from tocsin.intake.keys import request_key
from tocsin.intake.large_bodies import is_small
from tocsin.intake.sorting import Elsewhere
from tocsin.intake.validator import RecordValidator
from tocsin.protocol.cluster import (
    Arrived,
    AttachRequest,
    BrokerSubscriptions,
    ChannelList,
    ClusterStatus,
    DatasetList,
    Markers,
    News,
    RangeRequest,
    RangeRequests,
    Registered,
    RegisteredBrokers,
    Registration,
    ResultRange,
    ResultRanges,
    UnknownMarkers,
)
from tocsin.protocol.fields import MOST_RESULTS
from tocsin.protocol.publishing import Published, Rejection, StatementResults, Statements
from tocsin.protocol.queries import FilterQuery, LoadQuery, LogQuery, NewsQuery
from tocsin.service.multipart import is_form
from tocsin.service.on_behalf import on_behalf_of
from tocsin.service.streaming import StreamResponse
from tocsin.service.web import Call, json_response
from tocsin.storage.store.results import Range
from tocsin.storage.store.results import ResultRange as StoredRange
from tocsin.storage.store.subscriptions import Page

MOST_RANGES = 1000
MOST_ARGUMENTS_BYTES = 4 * 1024 * 1024  # of one page of a broker's subscriptions
MOST_RANGES_BYTES = 16 * 1024 * 1024  # one answer; whoever asks goes on behind it
STALL_S = 10.0  # how long a reader of routed records may leave a piece untaken


class Calls:
    """One method per route, but those of subscribers' own subscriptions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._described = DescribedSubscriptions(cluster)
        self._store = cluster.store
        settings = cluster.settings
        self._limits = Limits(
            settings.request_records, settings.record_limit_bytes, settings.body_limit_bytes
        )
        self._permissions = cluster.permissions
        self._throttle = cluster.throttle

    async def statements(self, call: Call) -> Any:
        request: Statements = await call.body(Statements)
        key = call.request.headers.get("idempotency-key")
        asker = await on_behalf_of(call, request.subscriber)
        results = await execute(
            self._cluster, request.sql, call.identity, request.subscriber, key, asker
        )
        return StatementResults(results)

    async def records(self, call: Call) -> Any:
        if is_form(call.request.headers.get("content-type")):
            return await self._record_with_attachments(call)
        self._permissions.require_publish(call.identity, call.path["name"])
        kind = format_of_content_type(call.request.headers.get("content-type"))
        large, publisher = self._cluster.large_bodies, call.identity.subject
        self._throttle.require(call.identity, call.announced_bytes or 1)
        with large.taking(publisher) as taking:
            body = await call.bytes(taking.more)
            elsewhere = None
            if kind == "parquet" or not is_small(body):
                elsewhere = partial(large.run, publisher)
            published = await self._cluster.publish(
                call.path["name"],
                self._throttle.counted(call.identity, read(body, kind, self._limits), len(body)),
                publisher=publisher,
                source="http",
                key=await self._key(call, kind, body, elsewhere),
                elsewhere=elsewhere,
            )
        return _published(published)

    async def _key(
        self, call: Call, kind: str, body: bytes, elsewhere: Elsewhere | None
    ) -> str | None:
        given = call.request.headers.get("idempotency-key")
        if given is None:
            return None
        work = partial(request_key, given, call.identity.subject, kind, body)
        return work() if elsewhere is None else await elsewhere(work)

    async def _record_with_attachments(self, call: Call) -> Any:
        settings, publisher = self._cluster.settings, call.identity.subject
        limits = settings.attachment_limit_bytes, settings.record_limit_bytes
        try:
            self._permissions.require_publish(call.identity, call.path["name"])
            self._throttle.upload(call.identity, 1, call.announced_bytes)
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

    async def datasets(self, call: Call) -> Any:
        datasets = await asyncio.to_thread(self._store.catalog.datasets)
        return DatasetList(self._permissions.visible(call.identity, "dataset", datasets))

    async def dataset(self, call: Call) -> Any:
        self._permissions.require_visible(call.identity, "dataset", call.path["name"])
        return await asyncio.to_thread(self._store.catalog.dataset, call.path["name"])

    async def channels(self, call: Call) -> Any:
        channels = await asyncio.to_thread(self._store.catalog.channels)
        return ChannelList(self._permissions.visible(call.identity, "channel", channels))

    async def channel(self, call: Call) -> Any:
        self._permissions.require_visible(call.identity, "channel", call.path["name"])
        return await asyncio.to_thread(self._store.catalog.channel, call.path["name"])

    async def brokers(self, _: Call) -> Any:
        return RegisteredBrokers(await asyncio.to_thread(self._store.catalog.brokers))

    async def put_broker(self, call: Call) -> Any:
        call.identity.require_broker(call.path["name"])
        registration: Registration = await call.body(Registration)
        broker = await self._cluster.put_broker(call.path["name"], registration.url)
        secret = self._cluster.notice_secrets.handed_out(broker.name)
        return Registered(broker.name, self._store.shown_id, secret)

    async def broker_subscriptions(self, call: Call) -> Any:
        call.identity.require_broker(call.path["name"])
        query, stored = call.query(LoadQuery), self._store.subscriptions
        if query.limit is UNSET:
            sequence, subscriptions = await asyncio.to_thread(stored.of_broker, call.path["name"])
            page = Page(sequence, subscriptions, None)
        else:
            bounds = query.after, query.limit, MOST_ARGUMENTS_BYTES
            page = await asyncio.to_thread(stored.page_of_broker, call.path["name"], *bounds)
        infos = await self._described.infos(page.subscriptions)
        return BrokerSubscriptions(
            infos, sequence=page.sequence, store_id=self._store.shown_id, upto=page.upto
        )

    async def attach(self, call: Call) -> Any:
        call.identity.require_broker(call.path["name"])
        request: AttachRequest = await call.body(AttachRequest)
        asker = await on_behalf_of(call, request.subscriber)
        subscriptions = await self._cluster.subscriptions.attach(
            request.subscriber, call.path["name"], asker
        )
        most = self._throttle.size("connections", asker)
        return Arrived(
            await self._described.infos(subscriptions), connections=UNSET if most is None else most
        )

    async def news(self, call: Call) -> Any:
        call.identity.require_broker(call.path["name"])
        since = call.query(NewsQuery).since
        sequence, heads, detached = await asyncio.to_thread(
            self._store.subscriptions.news, call.path["name"], since
        )
        return News(sequence, [head_news(head) for head in heads], detached, self._store.shown_id)

    async def results(self, call: Call) -> Any:
        request: RangeRequests = await call.body(RangeRequests)
        if len(request.ranges) > MOST_RANGES:
            raise InvalidInput(f"at most {MOST_RANGES} ranges at once", field="ranges")
        for wanted in request.ranges:
            if not 0 < wanted.limit <= MOST_RESULTS:
                raise InvalidInput(f"limit must be 1 to {MOST_RESULTS}", field="limit")
        broker = call.identity.broker
        return ResultRanges(await asyncio.to_thread(self._ranges, request.ranges, broker))

    def _ranges(self, requests: list[RangeRequest], broker: str | None) -> list[ResultRange]:
        """What the broker serves, if it is held to that; all else looks as if it were not there."""
        if broker is None:
            return self._read_ranges(requests)
        backends = [request.backend for request in requests]
        served = self._store.subscriptions.served_by(broker, backends)
        parts = iter(self._read_ranges([wanted for wanted in requests if wanted.backend in served]))
        return [
            next(parts) if wanted.backend in served else _gone(wanted.backend)
            for wanted in requests
        ]

    def _read_ranges(self, requests: list[RangeRequest]) -> list[ResultRange]:
        ranges = [
            Range(request.backend, request.after, request.upto, request.limit)
            for request in requests
        ]
        stored = self._store.results.read_many(ranges, MOST_RANGES_BYTES)
        filtered = self._cluster.routing.answers(ranges, stored)
        return [
            answer or _range_answer(wanted, part)
            for wanted, part, answer in zip(ranges, stored, filtered, strict=True)
        ]

    async def log(self, call: Call) -> Any:
        query = call.query(LogQuery)
        upto = None if query.upto is UNSET else query.upto
        dataset = await asyncio.to_thread(self._store.catalog.dataset, call.path["name"])
        if not dataset.routed:
            raise Forbidden(
                f"dataset {dataset.name} is not ROUTED: its records are no broker's", field="name"
            )
        read = self._cluster.routing.log_range
        return await asyncio.to_thread(read, dataset.name, query.after, upto, query.limit)

    async def filter(self, call: Call) -> Any:
        asker = await on_behalf_of(call)
        self._permissions.require(asker, "read", call.path["name"])
        claims = None if asker is None else claims_of(asker, asker.subject)
        bound, where = self._cluster.routing.filter, call.query(FilterQuery).where
        return await asyncio.to_thread(bound, call.path["name"], where, claims)

    async def routed(self, call: Call) -> Any:
        self._store.lease.require()
        stream = self._cluster.routed.stream(call.identity)
        return StreamResponse(stream, STALL_S, stream.gone)

    async def markers(self, call: Call) -> Any:
        request: Markers = await call.body(Markers)
        markers = [
            (marker.subscription, marker.epoch, marker.position) for marker in request.markers
        ]
        put, ends = self._store.subscriptions.put_markers, self._cluster.log.ends()
        broker = call.identity.broker
        return UnknownMarkers(await asyncio.to_thread(put, markers, ends, broker))

    async def status(self, _: Call) -> Any:
        return ClusterStatus(
            ready=self._cluster.ready,
            role="leader",
            store_id=self._store.shown_id,
            waits_for=self._store.waits_for,
            trouble=self._cluster.trouble,
            warnings=self._cluster.warnings,
        )


def _gone(backend: int) -> ResultRange:
    return ResultRange(backend=backend, gone=True)


def _range_answer(wanted: Range, stored: StoredRange | None) -> ResultRange:
    if stored is None:
        return _gone(wanted.backend)
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
