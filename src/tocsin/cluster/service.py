"""The cluster's REST service: its routes and what they carry."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any

import msgspec
import structlog
from msgspec import Meta, Struct, field
from starlette.applications import Starlette

from tocsin.cluster.attachments.calls import AttachmentCalls, attachment_routes, refused_upload
from tocsin.cluster.attachments.together import Together
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.formats import format_of_content_type, read
from tocsin.cluster.intake import Fitting, Published, Rejection, request_key
from tocsin.cluster.notices import result_json, subscription_json
from tocsin.cluster.opening import opened_store
from tocsin.cluster.statements import Outcome, execute
from tocsin.errors import Forbidden, InvalidInput, NotFound, TocsinError
from tocsin.model import Beginning, Channel, Dataset, Subscription, filtered_dataset
from tocsin.service.multipart import is_form
from tocsin.service.serving import listen, port_of, serving, until_stopped
from tocsin.service.streaming import StreamResponse
from tocsin.service.web import Call, Route, application, json_response
from tocsin.settings import Settings
from tocsin.storage.results import Range, ResultRange

log = structlog.get_logger()

MOST_RANGES = 1000
MOST_RESULTS = 10_000
STALL_S = 10.0  # how long a reader of routed records may leave a piece untaken
Position = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Limit = Annotated[int, Meta(ge=1, le=MOST_RESULTS)]


class Statements(Struct, forbid_unknown_fields=True):
    sql: str
    subscriber: str | None = None


class Outcomes(Struct):
    results: list[Outcome]


class BrokerAddress(Struct, forbid_unknown_fields=True):
    url: str


class Subscriber(Struct, forbid_unknown_fields=True):
    subscriber: str


class Interest(Struct, forbid_unknown_fields=True):
    channel: str
    arguments: dict[str, Any] | list[Any] = {}
    subscriber: str | None = None
    broker: str | None = None
    beginning: Beginning | None = field(default=None, name="from")


class Ranges(Struct, forbid_unknown_fields=True):
    ranges: list[Range]


class Marker(Struct, forbid_unknown_fields=True):
    subscription: int
    epoch: str
    position: int


class Markers(Struct, forbid_unknown_fields=True):
    markers: list[Marker]


class Calls:
    """One method per route."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store

    async def statements(self, call: Call) -> Any:
        asked: Statements = await call.body(Statements)
        key = call.request.headers.get("idempotency-key")
        results = await execute(self._cluster, asked.sql, call.identity, asked.subscriber, key)
        return {"results": results}

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
            together = Together(dataset, self._cluster.attachments, *limits)
            try:
                record = await together.receive(call)
                fitting = Fitting(dataset, settings.record_limit_bytes, together.announced())
                if not isinstance(fitting.encode(record), Rejection):
                    await together.commit()
            finally:
                await together.discard()
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
        return {"datasets": await asyncio.to_thread(self._store.catalog.datasets)}

    async def dataset(self, call: Call) -> Any:
        return await asyncio.to_thread(self._store.catalog.dataset, call.path["name"])

    async def channels(self, _: Call) -> Any:
        return {"channels": await asyncio.to_thread(self._store.catalog.channels)}

    async def channel(self, call: Call) -> Any:
        return await asyncio.to_thread(self._store.catalog.channel, call.path["name"])

    async def brokers(self, _: Call) -> Any:
        return {"brokers": await asyncio.to_thread(self._store.catalog.brokers)}

    async def put_broker(self, call: Call) -> Any:
        asked: BrokerAddress = await call.body(BrokerAddress)
        broker = await self._cluster.put_broker(call.path["name"], asked.url)
        return {"name": broker.name, "cluster": self._store.id}

    async def broker_subscriptions(self, call: Call) -> Any:
        sequence, found = await asyncio.to_thread(
            self._store.subscriptions.of_broker, call.path["name"]
        )
        return {
            "sequence": sequence,
            "cluster": self._store.id,
            "subscriptions": await self._told(found),
        }

    async def attach(self, call: Call) -> Any:
        asked: Subscriber = await call.body(Subscriber)
        found = await self._cluster.attach(asked.subscriber, call.path["name"])
        return {"subscriptions": await self._told(found)}

    async def news(self, call: Call) -> Any:
        since = call.query("since", int, 0)
        sequence, heads, detached = await asyncio.to_thread(
            self._store.subscriptions.news, call.path["name"], since
        )
        return {
            "sequence": sequence,
            "cluster": self._store.id,
            "heads": heads,
            "detached": detached,
        }

    async def subscriptions(self, call: Call) -> Any:
        of = self._whose(call, call.query("subscriber", str))
        found = await self._cluster.of_subscriber(of)
        return {"subscriptions": await self._told(found)}

    async def subscribe(self, call: Call) -> Any:
        asked: Interest = await call.body(Interest)
        subscriber = self._whose(call, asked.subscriber)
        made = await self._cluster.subscribe(
            subscriber, asked.channel, asked.arguments, asked.broker, asked.beginning
        )
        (told,) = await self._told([made])
        return told

    async def _told(self, found: Sequence[Subscription]) -> list[dict[str, Any]]:
        if any(filtered_dataset(one.backend.channel) is not None for one in found):
            found = await asyncio.to_thread(self._cluster.routing.present, found)
        channels = await asyncio.to_thread(self._channels, {one.backend.channel for one in found})
        return [subscription_json(one, channels.get(one.backend.channel)) for one in found]

    def _channels(self, names: set[str]) -> dict[str, Channel]:
        found = {}
        for name in names:
            with contextlib.suppress(NotFound):  # dropped meanwhile
                found[name] = self._store.catalog.channel(name)
        return found

    async def unsubscribe(self, call: Call) -> Any:
        subscriber = self._whose(call, call.query("subscriber", str))
        await self._cluster.unsubscribe(call.path["number"], subscriber)
        return {}

    def _whose(self, call: Call, named: str | None) -> str:
        """Brokers and admins act for others; everyone else for themselves."""
        if named is None or named == call.identity.subject:
            return call.identity.subject
        if not call.identity.scopes & {"broker", "admin"}:
            raise Forbidden("this token speaks for its own subject only", field="subscriber")
        return named

    async def results(self, call: Call) -> Any:
        asked: Ranges = await call.body(Ranges)
        if len(asked.ranges) > MOST_RANGES:
            raise InvalidInput(f"at most {MOST_RANGES} ranges at once", field="ranges")
        for one in asked.ranges:
            if not 0 < one.limit <= MOST_RESULTS:
                raise InvalidInput(f"limit must be 1 to {MOST_RESULTS}", field="limit")
        return {"ranges": await asyncio.to_thread(self._ranges, asked.ranges)}

    def _ranges(self, asked: list[Range]) -> list[dict[str, Any]]:
        found = self._store.results.read_many(asked)
        filtered = self._cluster.routing.answers(asked, found)
        return [
            answer or _range_json(wanted, one)
            for wanted, one, answer in zip(asked, found, filtered, strict=True)
        ]

    async def log(self, call: Call) -> Any:
        after = call.query("after", Position, 0)
        upto = call.query("upto", Position)
        limit = call.query("limit", Limit, MOST_RESULTS)
        read = self._cluster.routing.log_range
        return await asyncio.to_thread(read, call.path["name"], after, upto, limit)

    async def filter(self, call: Call) -> Any:
        bound = self._cluster.routing.filter
        return await asyncio.to_thread(bound, call.path["name"], call.query("where", str, ""))

    async def routed(self, call: Call) -> Any:
        stream = self._cluster.routed.stream(call.identity)
        return StreamResponse(stream, STALL_S, stream.gone)

    async def markers(self, call: Call) -> Any:
        asked: Markers = await call.body(Markers)
        wanted = [(one.subscription, one.epoch, one.position) for one in asked.markers]
        put, ends = self._store.subscriptions.put_markers, self._cluster.log.ends()
        return {"unknown": await asyncio.to_thread(put, wanted, ends)}

    async def status(self, _: Call) -> Any:
        return {
            "ready": self._cluster.ready,
            "cluster": self._store.id,
            "waits_for": self._store.waits_for,
            "trouble": self._cluster.trouble,
        }


def _range_json(wanted: Range, found: ResultRange | None) -> dict[str, Any]:
    if found is None:
        return {"backend": wanted.backend, "gone": True}
    return {
        "backend": found.backend,
        "epoch": found.epoch,
        "floor": found.floor,
        "head": found.head,
        "results": [result_json(result) for result in found.results],
    }


def _published(published: Published) -> Any:
    nothing_fits = published.rejected and not published.accepted
    return json_response(published, 422 if nothing_fits else 200)


def routes(cluster: Cluster) -> list[Route]:
    """Everything the cluster answers."""
    c = Calls(cluster)
    broker, admin = ("broker",), ("admin", "broker")
    return [
        Route("GET", "/v1/status", c.status, None, "whether Spark is up, and what is waited for"),
        Route(
            "POST",
            "/v1/statements",
            c.statements,
            (),
            "run statements; each needs its own scope",
            Statements,
            Outcomes,
        ),
        Route(
            "POST",
            "/v1/datasets/{name}/records",
            c.records,
            ("publish",),
            "publish records: JSON, JSON lines, CSV or Parquet by Content-Type",
            None,
            Published,
        ),
        Route("GET", "/v1/datasets", c.datasets, (), "all datasets"),
        Route("GET", "/v1/datasets/{name}", c.dataset, (), "one dataset", None, Dataset),
        Route(
            "GET",
            "/v1/datasets/{name}/log",
            c.log,
            broker,
            "records of a dataset by a range of positions",
        ),
        Route(
            "GET",
            "/v1/datasets/{name}/filter",
            c.filter,
            ("subscribe", "broker"),
            "a filter on a routed dataset, as brokers match it",
        ),
        Route(
            "GET", "/v1/routed", c.routed, broker, "records of routed datasets as they come (lines)"
        ),
        Route("GET", "/v1/channels", c.channels, (), "all channels"),
        Route("GET", "/v1/channels/{name}", c.channel, (), "one channel", None, Channel),
        Route("GET", "/v1/brokers", c.brokers, (), "all brokers"),
        Route(
            "PUT",
            "/v1/brokers/{name}",
            c.put_broker,
            admin,
            "say where a broker's notices go",
            BrokerAddress,
        ),
        Route(
            "GET",
            "/v1/brokers/{name}/subscriptions",
            c.broker_subscriptions,
            broker,
            "the frontend subscriptions that a broker serves",
        ),
        Route(
            "POST",
            "/v1/brokers/{name}/attach",
            c.attach,
            broker,
            "a subscriber has come to this broker: move everything of theirs there",
            Subscriber,
        ),
        Route(
            "GET",
            "/v1/brokers/{name}/news",
            c.news,
            broker,
            "what is new for a broker since a sequence",
        ),
        Route(
            "GET",
            "/v1/subscriptions",
            c.subscriptions,
            ("subscribe", *admin),
            "one's subscriptions",
        ),
        Route(
            "POST",
            "/v1/subscriptions",
            c.subscribe,
            ("subscribe", "broker"),
            "subscribe; a repeat gives the same subscription",
            Interest,
        ),
        Route(
            "DELETE",
            "/v1/subscriptions/{number:int}",
            c.unsubscribe,
            ("subscribe", "broker"),
            "end a subscription",
        ),
        Route("POST", "/v1/results", c.results, broker, "results by ranges of positions", Ranges),
        Route("POST", "/v1/markers", c.markers, broker, "store acknowledgements", Markers),
        *attachment_routes(
            AttachmentCalls(cluster.attachments, cluster.settings.attachment_limit_bytes)
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
    tasks = [asyncio.create_task(one) for one in ends]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()
