"""`Broker`: a whole broker process around the machine; `run` serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Self

import structlog

from tocsin.broker.server.cluster_link import ClusterLink
from tocsin.broker.server.driver import TICK_S, Driver
from tocsin.broker.server.heartbeats import Heartbeats
from tocsin.broker.server.link import FRAME_BYTES, Limits
from tocsin.broker.server.links import Links
from tocsin.broker.server.metrics import BROKERS
from tocsin.broker.server.rest import Rest
from tocsin.broker.server.socket_clients import SocketClients
from tocsin.broker.server.sockets import Sockets
from tocsin.broker.server.upgrades import Entrance
from tocsin.client.transport import tls
from tocsin.errors import TocsinError
from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.client import GOING_AWAY, PATH
from tocsin.protocol.coordinator import Heartbeat, OverlayAssignment
from tocsin.protocol.link import PATH as LINK_PATH
from tocsin.service.addresses import announced_host
from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.disks import full_disks
from tocsin.service.exposure import exposure_of
from tocsin.service.hosting import hosting, scheme
from tocsin.service.keys.credentials import LINK, credential_of
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.listener import Listener
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, until_stopped
from tocsin.service.tls import Certificate, certificate_of
from tocsin.settings import Settings

log = structlog.get_logger()

STALL_S = 10.0


class Broker:
    """Start it, or use it as an asynchronous context."""

    def __init__(self, settings: Settings, *, stall_s: float = STALL_S) -> None:
        self.settings = settings
        self.verifier = TokenVerifier.of(settings)
        self._credential = credential_of(settings)
        self._verified = self.verifier.version
        self._stall_s = stall_s
        self._loops: list[asyncio.Task[None]] = []
        self._certificate: Certificate | None = None
        self._heartbeats = Heartbeats(
            settings.coordinator_url,
            settings.broker_name,
            self._credential,
            settings.heartbeat_s,
            settings.authority,
            self._overlay_assigned,
        )
        self._stack = contextlib.AsyncExitStack()

    @property
    def name(self) -> str:
        return self.settings.broker_name

    async def start(self) -> None:
        """Returns when the broker has loaded its subscriptions and takes clients."""
        self._certificate = certificate_of(self.settings)
        tls(self.settings.authority)  # what cannot be trusted is told before anybody is called
        rest_listener, ws_listener = self._listen()
        self._build()
        await self.driver.pages.start()
        # Notices come as soon as the cluster knows our address, so REST is up before that.
        hosted = hosting(self.settings, self.rest.app, rest_listener, self._certificate)
        await self._stack.enter_async_context(hosted)
        self._loops = [asyncio.create_task(self._tick())]
        try:
            self.driver.tick()  # it asks the cluster
            await self.driver.ready
            await self._learn_revoked()
            context = None if self._certificate is None else self._certificate.context
            await self.sockets.start(ws_listener, context)
        except BaseException:
            ws_listener.close()
            await self._end_loops()
            await self._stack.aclose()
            raise
        BROKERS.drivers.append(self.driver)
        BROKERS.links.append(self.links)
        self._loops.append(asyncio.create_task(self._heartbeats.run(self._beat)))
        self._loops.append(asyncio.create_task(self._follow_revocations()))
        log.info("broker ready", broker=self.name, url=self.url, ws_url=self.ws_url)

    def _listen(self) -> tuple[Listener, Listener]:
        """Where REST and WebSockets come in."""
        settings = self.settings
        connections = Connections(ConnectionLimits.of(settings))
        rest_listener = listen(settings.host, settings.broker_port, "broker_port", connections)
        ws_listener = listen(settings.host, settings.broker_ws_port, "broker_ws_port", connections)
        for listener in (rest_listener, ws_listener):
            # What the kernel holds for a client counts as well; connections inherit the limit.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.connection_bytes)
        host = announced_host(settings)
        url = f"{scheme(settings)}://{host}:{port_of(rest_listener)}"
        ws_url = f"{scheme(settings, 'ws')}://{host}:{port_of(ws_listener)}"
        self.url = (settings.public_url or url).rstrip("/")
        public = (settings.public_ws_url or ws_url).rstrip("/")
        self.ws_url = public.removesuffix(PATH) + PATH
        return rest_listener, ws_listener

    def _build(self) -> None:
        settings = self.settings
        link = ClusterLink(
            settings.cluster_url,
            self._credential,
            self.name,
            authority=settings.authority,
            gateway_url=settings.gateway_url,
        )
        self._stack.push_async_callback(link.close)
        self.driver = Driver(settings, link, self.url)
        self._stack.push_async_callback(self.driver.close)
        self.links = Links(
            self.name,
            self._credential,
            self.driver,
            Limits(frame_bytes=min(FRAME_BYTES, settings.frame_limit_bytes)),
            store_id=lambda: self.driver.machine.store_id,
            authority=settings.authority,
        )
        self._stack.push_async_callback(self.links.stop)
        self.sockets = Sockets(
            SocketClients(self.driver),
            verifier=self.verifier,
            frame_limit_bytes=settings.frame_limit_bytes,
            connection_bytes=settings.connection_bytes,
            stall_s=self._stall_s,
            stalled=self._count_stalled,
            exposure=exposure_of(settings),
            others={LINK_PATH: Entrance(self.links.accept, audience=LINK + self.name)},
        )
        info = BrokerInfo(self.name, self.url, self.ws_url)
        self.rest = Rest(self.driver, info, self._stall_s, self.verifier, self._trouble)

    def _trouble(self) -> str | None:
        """What nobody but an operator mends: whom we do not trust, and a full disk."""
        if reason := self.driver.link.distrusted:
            return f"no answer from the cluster at {self.driver.link.url}: {reason}"
        if trouble := self._heartbeats.trouble:
            return trouble
        pages = self.settings.page_cache
        return "; ".join(full_disks([Path(pages)] if pages else [])) or None

    async def stop(self) -> None:
        """Leave gracefully: no new clients, markers stored, the connected ones sent elsewhere."""
        log.info("broker stopping", broker=self.name)
        await self._end_loops()
        await self._heartbeats.leave()
        await self.links.stop()
        await self.driver.flush_markers()
        self._end_streams()
        await self.sockets.stop()
        await self.driver.flush_markers()
        await self._stack.aclose()

    async def abort(self) -> None:
        """End as a crash would: nothing is said to anybody."""
        self.sockets.abort()
        await self._end_loops()
        self._end_streams()
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _end_streams(self) -> None:
        self.rest.let_go()
        for stream in list(self.rest.streams):
            stream.close(GOING_AWAY, "the broker is shutting down")

    async def _end_loops(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self.driver in BROKERS.drivers:
            BROKERS.drivers.remove(self.driver)
            BROKERS.links.remove(self.links)

    def _count_stalled(self) -> None:
        self.driver.counts.stalled += 1

    async def _tick(self) -> None:
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(min(TICK_S, self.settings.marker_flush_s))
            try:
                self.driver.tick()
                now = time.monotonic()
                if now - checked_at >= min(1.0, self._stall_s / 8):
                    checked_at = now
                    self.sockets.close_stalled(now)
                    self._close_revoked(now)
            except Exception:
                log.exception("a tick failed")

    def _close_revoked(self, now: float) -> None:
        self.verifier.poll(now)
        if self._verified != self.verifier.version:
            self._verified = self.verifier.version
            self.sockets.close_revoked()
            self.rest.close_revoked()
            self.links.cut_revoked(self.verifier.refusal)

    async def _follow_revocations(self) -> None:
        while True:
            await asyncio.sleep(self.settings.news_poll_s)
            await self._learn_revoked()

    async def _learn_revoked(self) -> None:
        """What the cluster knows; while it is away, what it said last stays."""
        with contextlib.suppress(TocsinError):
            self.verifier.revocations.heard(await self.driver.link.revoked())

    def _beat(self, place: int | None) -> Heartbeat:
        connections, subscriptions = len(self.driver.connections), self.driver.subscriptions
        return Heartbeat(self.url, self.ws_url, connections, subscriptions, place)

    def _overlay_assigned(self, overlay: OverlayAssignment) -> None:
        self.driver.assigned(self.links, overlay.entry, overlay.neighbours)


async def run(settings: Settings) -> None:
    """Serve until a signal asks to stop. Best on uvloop: `uvloop.run(run(settings))`."""
    configure_logs(settings.log_level, settings.log_format)
    stopped = asyncio.create_task(until_stopped())
    broker = Broker(settings)
    starting = asyncio.create_task(broker.start())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    try:
        starting.result()
    except BaseException:
        stopped.cancel()
        raise
    await stopped
    await broker.stop()
