"""The coordinator's HTTP service around the registry."""

from __future__ import annotations

import time
from typing import Annotated, Any

import structlog
from msgspec import Meta, Struct
from prometheus_client import Gauge
from starlette.applications import Starlette

from tocsin.coordinator.overlay import OverlayTree, tree_from
from tocsin.coordinator.registry import Beside, LiveBroker, Registry
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, serving, until_stopped
from tocsin.service.tokens import check_secret
from tocsin.service.web import Call, Route, application
from tocsin.settings import Settings

log = structlog.get_logger()

ALIVE = Gauge("tocsin_coordinator_brokers_alive", "Brokers whose heartbeats come")


class Heartbeat(Struct, frozen=True):
    """What a broker reports."""

    url: str
    ws_url: str
    connections: Annotated[int, Meta(ge=0)] = 0
    subscriptions: Annotated[int, Meta(ge=0)] = 0
    place: Annotated[int, Meta(ge=0)] | None = None  # as it was last answered


class HeartbeatAnswer(Struct, frozen=True):
    interval_s: float  # when the coordinator expects the next one
    place: int  # among all brokers; to be repeated, for a coordinator that starts anew
    overlay: Beside | None  # None: as before


class Brokers(Struct, frozen=True):
    brokers: list[LiveBroker]


def app(settings: Settings) -> Starlette:
    """The service. Its state lives in memory only and dies with it."""
    registry = Registry(settings.heartbeat_s, tree_from(settings.overlay_tree))

    async def heartbeat(call: Call) -> HeartbeatAnswer:
        beat: Heartbeat = await call.body(Heartbeat)
        name, now = call.path["name"], time.monotonic()
        place = registry.heartbeat(
            name, beat.url, beat.ws_url, beat.connections, beat.subscriptions, now, beat.place
        )
        _count()
        return HeartbeatAnswer(settings.heartbeat_s, place, registry.beside(name, now))

    async def leave(call: Call) -> dict[str, Any]:
        registry.leave(call.path["name"])
        _count()
        log.info("a broker left", broker=call.path["name"])
        return {}

    async def choose(call: Call) -> LiveBroker:
        exclude = call.request.query_params.getlist("exclude")
        return registry.choose(time.monotonic(), exclude)

    async def brokers(_: Call) -> Brokers:
        _count()
        return Brokers(registry.brokers(time.monotonic()))

    async def overlay(_: Call) -> OverlayTree:
        return registry.overlay(time.monotonic())

    def _count() -> None:
        ALIVE.set(sum(broker.alive for broker in registry.brokers(time.monotonic())))

    path = "/v1/brokers/{name}"
    return application(
        "Tocsin coordinator",
        [
            Route("PUT", path, heartbeat, ("broker",), "A heartbeat", Heartbeat, HeartbeatAnswer),
            Route("DELETE", path, leave, ("broker",), "A broker leaves", answers=dict[str, Any]),
            Route(
                "GET",
                "/v1/broker",
                choose,
                ("subscribe", "publish"),
                "Which to use",
                answers=LiveBroker,
            ),
            Route("GET", "/v1/brokers", brokers, (), "All brokers", answers=Brokers),
            Route("GET", "/v1/overlay", overlay, (), "Their tree", answers=OverlayTree),
        ],
        secret=check_secret(settings.secret),
        limit_bytes=settings.body_limit_bytes,
    )


async def run(settings: Settings) -> None:
    """Serve until a signal asks to stop."""
    configure_logs(settings.log_level, settings.log_format)
    service = app(settings)
    listener = listen(settings.host, settings.coordinator_port, "coordinator_port")
    async with serving(service, listener):
        log.info("coordinator ready", url=f"http://{settings.host}:{port_of(listener)}")
        await until_stopped()
        log.info("coordinator stopping")
