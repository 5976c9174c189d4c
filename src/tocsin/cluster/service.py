"""The cluster's REST service: its routes and what they carry."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import structlog
from starlette.applications import Starlette

from tocsin.cluster.append_calls import AppendCalls, append_routes
from tocsin.cluster.attachments.access import AttachmentAccess
from tocsin.cluster.attachments.calls import AttachmentCalls, attachment_routes
from tocsin.cluster.calls import Calls
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.commit_calls import CommitCalls
from tocsin.cluster.opening import opened_store
from tocsin.cluster.revocations import RevocationCalls, revocation_routes
from tocsin.cluster.subscription_calls import SubscriptionCalls
from tocsin.errors import (
    Conflict,
    Damaged,
    NotFound,
    QuotaExceeded,
    RecordError,
    StatementError,
    Unconfirmed,
)
from tocsin.model import Channel, Dataset
from tocsin.protocol.client import SubscriptionInfo, SubscriptionList
from tocsin.protocol.cluster import (
    Arrived,
    AttachRequest,
    BoundFilter,
    BrokerSubscriptions,
    ChannelList,
    ClusterStatus,
    DatasetList,
    LogRange,
    Markers,
    News,
    RangeRequests,
    Registered,
    RegisteredBrokers,
    Registration,
    ResultRanges,
    RoutedLine,
    SubscriptionRequest,
    UnknownMarkers,
)
from tocsin.protocol.health import Done
from tocsin.protocol.publishing import Published, StatementResults, Statements
from tocsin.protocol.queries import FilterQuery, LoadQuery, LogQuery, NewsQuery, SubscriberQuery
from tocsin.service.addresses import announced_host
from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.exposure import exposure_of
from tocsin.service.hosting import hosting, scheme
from tocsin.service.openapi import Media
from tocsin.service.serving import listen, port_of, until_stopped
from tocsin.service.tls import certificate_of
from tocsin.service.web import Handler, Route, application
from tocsin.settings import Settings
from tocsin.spark.warm_session import WarmSession

log = structlog.get_logger()


def routes(cluster: Cluster) -> list[Route]:
    """Everything the cluster answers."""
    calls = Calls(cluster)
    settings = cluster.settings
    attachments = AttachmentCalls(
        cluster.attachments,
        AttachmentAccess(cluster.store, cluster.routing),
        cluster.throttle,
        settings.attachment_limit_bytes,
    )
    return [
        *_catalog_routes(calls),
        *revocation_routes(RevocationCalls(cluster.verifier.revocations)),
        *_publishing_routes(calls),
        *append_routes(AppendCalls(cluster)),
        *_broker_routes(calls),
        *_range_routes(calls),
        *CommitCalls(cluster).routes(),
        *_subscription_routes(SubscriptionCalls(cluster), calls.filter),
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
            errors=(StatementError, NotFound, Conflict, QuotaExceeded, Unconfirmed),
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
            errors=(RecordError, QuotaExceeded, Unconfirmed),
            limit_bytes=None,
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
            "the frontend subscriptions that a broker serves, by pages",
            answers=BrokerSubscriptions,
            query=LoadQuery,
        ),
        Route("POST", mine + "/attach", c.attach, broker, arriving, AttachRequest, Arrived),
        Route("GET", mine + "/news", c.news, broker, news, answers=News, query=NewsQuery),
    ]


def _range_routes(c: Calls) -> list[Route]:
    """What brokers read by positions, and what they acknowledge."""
    broker, storing = ("broker",), "store acknowledgements"
    return [
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
            storing,
            Markers,
            UnknownMarkers,
            limit_bytes=None,  # a broker sends at once what it gathered while we were away
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


def _subscription_routes(c: SubscriptionCalls, filtering: Handler) -> list[Route]:
    subscribing = ("subscribe", "broker")
    path, ending = "/v1/subscriptions/{number:int}", "end a subscription"
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
            "subscribe: one, or a list of them that is made whole or not at all; a repeat gives the"
            " same subscription",
            SubscriptionRequest | list[SubscriptionRequest],
            SubscriptionInfo | list[SubscriptionInfo],
            errors=(NotFound, QuotaExceeded),
            limit_bytes=None,  # of one the arguments are bounded, and of a list their number
        ),
        Route(
            "DELETE", path, c.unsubscribe, subscribing, ending, None, Done, query=SubscriberQuery
        ),
        Route(
            "GET",
            "/v1/datasets/{name}/filter",
            filtering,
            subscribing,
            "a filter on a routed dataset, as brokers match it",
            answers=BoundFilter,
            query=FilterQuery,
            errors=(StatementError,),
        ),
    ]


def app(cluster: Cluster, inner: bool = False) -> Starlette:
    settings = cluster.settings
    return application(
        "Tocsin data cluster",
        routes(cluster),
        verifier=cluster.verifier,
        limit_bytes=settings.body_limit_bytes,
        trouble=lambda: cluster.trouble,
        leads=lambda: cluster.leads,
        exposure=exposure_of(settings),
        inner=inner,
    )


async def run(settings: Settings) -> None:
    """Serve until asked to stop, or until something breaks that a restart must mend."""
    # The threads that talk to Spark make hundreds of tiny calls a run; at Python's default each
    # would wait up to 5 ms for the busy event loop.
    sys.setswitchinterval(0.0002)
    certificate = certificate_of(settings)
    connections = Connections(ConnectionLimits.of(settings))
    listener = listen(settings.host, settings.cluster_port, "cluster_port", connections)
    address = f"{scheme(settings)}://{announced_host(settings)}:{port_of(listener)}"
    warm = WarmSession(settings) if settings.standby else None
    async with AsyncExitStack() as at_last:
        opening = opened_store(settings, listener, certificate, address=address, warm=warm)
        with await opening as store:
            async with (
                Cluster(settings, store, warm, at_last) as cluster,
                hosting(settings, partial(app, cluster), listener, certificate),
            ):
                log.info("the cluster listens", url=address, data=str(settings.data))
                try:
                    await _until_an_end(until_stopped(), cluster.until_broken())
                finally:
                    cluster.routed.close()  # nobody waits for the end of what has none
                log.info("the cluster stops")
        log.info("the cluster has given its store back")


async def _until_an_end(*ends: Coroutine[Any, Any, None]) -> None:
    """Wait for the first, and raise what it raises."""
    tasks = [asyncio.create_task(end) for end in ends]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()
