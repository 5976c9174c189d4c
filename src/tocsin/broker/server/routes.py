"""The table of the broker's HTTP routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.broker.server.pages.calls import page_routes
from tocsin.broker.server.relay import relay_routes
from tocsin.errors import Conflict, NotFound, QuotaExceeded, StatementError, Unauthenticated
from tocsin.protocol.broker import (
    BrokerInfo,
    CacheInfo,
    MarkerInfo,
    MessagesChange,
    MessagesInfo,
    OverlayInfo,
    PolicyChange,
    Recalled,
    Recalling,
)
from tocsin.protocol.client import (
    Acknowledgement,
    Event,
    Interest,
    Results,
    SubscriptionInfo,
    SubscriptionList,
)
from tocsin.protocol.cluster import News, Noticed
from tocsin.protocol.health import Done
from tocsin.protocol.queries import EventsQuery, ResultsQuery
from tocsin.protocol.trace import MEDIA_TYPE
from tocsin.service.openapi import Media
from tocsin.service.web import Route

if TYPE_CHECKING:
    from tocsin.broker.server.rest import Rest

SUBSCRIBE = ("subscribe",)
INTEREST_BYTES = 128 * 1024  # twice what arguments may have
NOTICE_BYTES = 2 * 1024 * 1024  # the cluster divides what would be larger
SUBSCRIPTION = "/v1/subscriptions/{id:int}"


def routes(rest: Rest) -> list[Route]:
    return [
        *_subscription_routes(rest),
        *_result_routes(rest),
        *_cache_routes(rest),
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
            "/v1/notices",
            rest.notices,
            None,
            "Signed notices of the cluster",
            News,
            Noticed,
            errors=(Unauthenticated,),
            limit_bytes=NOTICE_BYTES,
        ),
        Route(
            "GET",
            "/v1/trace",
            rest.trace,
            ("admin",),
            "Record what happens here, without names, until you hang up (tocsin lab trace record)",
            answers=Media(MEDIA_TYPE),
            errors=(Conflict,),
        ),
        *page_routes(rest.pages),
    ]


def _subscription_routes(rest: Rest) -> list[Route]:
    return [
        Route(
            "POST",
            "/v1/subscriptions",
            rest.subscribe,
            SUBSCRIBE,
            "Subscribe to a channel",
            Interest,
            SubscriptionInfo,
            errors=(NotFound, QuotaExceeded),
            limit_bytes=INTEREST_BYTES,
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
        Route("DELETE", SUBSCRIPTION, rest.unsubscribe, SUBSCRIBE, "Unsubscribe", None, Done),
    ]


def _result_routes(rest: Rest) -> list[Route]:
    return [
        Route(
            "GET",
            SUBSCRIPTION + "/results",
            rest.results,
            SUBSCRIBE,
            "Results after a cursor, or after the marker; wait_s waits for some",
            answers=Results,
            query=ResultsQuery,
        ),
        Route(
            "POST",
            SUBSCRIPTION + "/ack",
            rest.ack,
            SUBSCRIBE,
            "Acknowledge everything up to a position; answered when durable",
            Acknowledgement,
            MarkerInfo,
        ),
        Route(
            "GET",
            "/v1/events",
            rest.events,
            SUBSCRIBE,
            "Signals or results as they come (SSE)",
            answers=Media("text/event-stream", Event),
            errors=(QuotaExceeded,),
            query=EventsQuery,
            token_in_query=True,
        ),
    ]


def _cache_routes(rest: Rest) -> list[Route]:
    return [
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
            errors=(NotFound, StatementError),
        ),
    ]
