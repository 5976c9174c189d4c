"""The coordinator's HTTP service around the registry."""

from __future__ import annotations

import time
from functools import partial

import structlog
from prometheus_client import Gauge
from starlette.applications import Starlette

from tocsin.coordinator.overlay import tree_from
from tocsin.coordinator.registry import Registry
from tocsin.errors import InvalidInput
from tocsin.protocol.coordinator import (
    Heartbeat,
    HeartbeatAnswer,
    LiveBroker,
    LiveBrokers,
    OverlayTree,
)
from tocsin.protocol.health import Done
from tocsin.protocol.queries import BrokerQuery
from tocsin.service.addresses import checked_address
from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.exposure import exposure_of
from tocsin.service.hosting import hosting, scheme
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, until_stopped
from tocsin.service.tls import certificate_of
from tocsin.service.web import Call, Route, application
from tocsin.settings import Settings
from tocsin.sql.tokens import NAME, NAME_RULE

log = structlog.get_logger()

ALIVE = Gauge("tocsin_coordinator_brokers_alive", "Brokers whose heartbeats come")


def app(settings: Settings, inner: bool = False) -> Starlette:
    """The service. Its state lives in memory only and dies with it."""
    registry = Registry(settings.heartbeat_s, tree_from(settings.overlay_tree))
    return application(
        "Tocsin coordinator",
        _Calls(registry, settings.heartbeat_s).routes(),
        verifier=TokenVerifier.of(settings),
        limit_bytes=settings.body_limit_bytes,
        exposure=exposure_of(settings),
        inner=inner,
    )


class _Calls:
    """What is called over HTTP, answered by the registry."""

    def __init__(self, registry: Registry, heartbeat_s: float) -> None:
        self._registry = registry
        self._heartbeat_s = heartbeat_s

    def routes(self) -> list[Route]:
        path, broker, users = "/v1/brokers/{name}", ("broker",), ("subscribe", "publish")
        return [
            Route("PUT", path, self._heartbeat, broker, "A heartbeat", Heartbeat, HeartbeatAnswer),
            Route("DELETE", path, self._leave, broker, "A broker leaves", answers=Done),
            Route(
                "GET",
                "/v1/broker",
                self._choose,
                users,
                "Which to use",
                answers=LiveBroker,
                query=BrokerQuery,
            ),
            Route("GET", "/v1/brokers", self._brokers, (), "All brokers", answers=LiveBrokers),
            Route("GET", "/v1/overlay", self._overlay, (), "Their tree", answers=OverlayTree),
        ]

    async def _heartbeat(self, call: Call) -> HeartbeatAnswer:
        call.identity.require_broker(call.path["name"])
        beat: Heartbeat = await call.body(Heartbeat)
        name, now = _checked_name(call), time.monotonic()
        checked_address(beat.url, "http", "url")
        checked_address(beat.ws_url, "ws", "ws_url")
        place = self._registry.heartbeat(
            name, beat.url, beat.ws_url, beat.connections, beat.subscriptions, now, beat.place
        )
        self._count()
        overlay, alive = self._registry.assignment(name, now), self._registry.alive(now)
        return HeartbeatAnswer(self._heartbeat_s, place, overlay, alive)

    async def _leave(self, call: Call) -> Done:
        call.identity.require_broker(call.path["name"])
        self._registry.leave(call.path["name"])
        self._count()
        log.info("a broker left", broker=call.path["name"])
        return Done()

    async def _choose(self, call: Call) -> LiveBroker:
        return self._registry.choose(time.monotonic(), call.query(BrokerQuery).exclude)

    async def _brokers(self, _: Call) -> LiveBrokers:
        self._count()
        return LiveBrokers(self._registry.brokers(time.monotonic()))

    async def _overlay(self, _: Call) -> OverlayTree:
        return self._registry.overlay(time.monotonic())

    def _count(self) -> None:
        ALIVE.set(sum(broker.alive for broker in self._registry.brokers(time.monotonic())))


def _checked_name(call: Call) -> str:
    """As the cluster takes it: a broker that only one of the two knows would serve nobody."""
    name: str = call.path["name"]
    if not NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} cannot name a broker", field="name", hint=NAME_RULE)
    return name


async def run(settings: Settings) -> None:
    """Serve until a signal asks to stop."""
    configure_logs(settings.log_level, settings.log_format)
    certificate = certificate_of(settings)
    connections = Connections(ConnectionLimits.of(settings))
    listener = listen(settings.host, settings.coordinator_port, "coordinator_port", connections)
    async with hosting(settings, partial(app, settings), listener, certificate):
        url = f"{scheme(settings)}://{settings.host}:{port_of(listener)}"
        log.info("coordinator ready", url=url)
        await until_stopped()
        log.info("coordinator stopping")
