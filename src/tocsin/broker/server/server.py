"""`Broker`: a whole broker process around the machine; `run` serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Self
from urllib.parse import quote

import httpx
import msgspec
import structlog

from tocsin.broker.server.cluster_link import ClusterLink
from tocsin.broker.server.driver import TICK_S, Driver
from tocsin.broker.server.link import FRAME_BYTES, Limits
from tocsin.broker.server.links import Links
from tocsin.broker.server.metrics import BROKERS
from tocsin.broker.server.rest import Rest
from tocsin.broker.server.socket_clients import SocketClients
from tocsin.broker.server.sockets import PATH, Sockets
from tocsin.broker.server.upgrades import Entrance
from tocsin.client.http import error_of
from tocsin.client.transport import HttpClient
from tocsin.errors import TocsinError
from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.client import (
    GOING_AWAY,
)
from tocsin.protocol.coordinator import Heartbeat, HeartbeatAnswer
from tocsin.protocol.link import PATH as LINK_PATH
from tocsin.service.keys.credentials import LINK, credential_of
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, serving, until_stopped
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
        self._place: int | None = None  # among all brokers, as the coordinator counts
        self._stack = contextlib.AsyncExitStack()

    @property
    def name(self) -> str:
        return self.settings.broker_name

    async def start(self) -> None:
        """Returns when the broker has loaded its subscriptions and takes clients."""
        rest_listener, ws_listener = self._listen()
        self._build()
        await self.driver.pages.start()
        # Notices come as soon as the cluster knows our address, so REST is up before that.
        await self._stack.enter_async_context(serving(self.rest.app(), rest_listener))
        self._loops = [asyncio.create_task(self._tick())]
        try:
            self.driver.tick()  # it asks the cluster
            await self.driver.ready
            await self._learn_revoked()
            await self.sockets.start(ws_listener)
        except BaseException:
            ws_listener.close()
            await self._end_loops()
            await self._stack.aclose()
            raise
        BROKERS.drivers.append(self.driver)
        BROKERS.links.append(self.links)
        self._loops.append(asyncio.create_task(self._heartbeat()))
        self._loops.append(asyncio.create_task(self._follow_revocations()))
        log.info("broker ready", broker=self.name, url=self.url, ws_url=self.ws_url)

    def _listen(self) -> tuple[socket.socket, socket.socket]:
        """Where REST and WebSockets come in."""
        settings = self.settings
        rest_listener = listen(settings.host, settings.broker_port, "broker_port")
        ws_listener = listen(settings.host, settings.broker_ws_port, "broker_ws_port")
        for listener in (rest_listener, ws_listener):
            # What the kernel holds for a client counts as well; connections inherit the limit.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.connection_bytes)
        host = _announced(settings)
        self.url = f"http://{host}:{port_of(rest_listener)}"
        self.ws_url = f"ws://{host}:{port_of(ws_listener)}{PATH}"
        return rest_listener, ws_listener

    def _build(self) -> None:
        settings = self.settings
        link = ClusterLink(settings.cluster_url, self._credential, self.name)
        self._stack.push_async_callback(link.close)
        self.driver = Driver(settings, link, self.url)
        self._stack.push_async_callback(self.driver.close)
        self.links = Links(
            self.name,
            self._credential,
            self.driver,
            Limits(frame_bytes=min(FRAME_BYTES, settings.frame_limit_bytes)),
            store_id=lambda: self.driver.machine.store_id,
        )
        self._stack.push_async_callback(self.links.stop)
        self.sockets = Sockets(
            SocketClients(self.driver),
            verifier=self.verifier,
            frame_limit_bytes=settings.frame_limit_bytes,
            connection_bytes=settings.connection_bytes,
            stall_s=self._stall_s,
            stalled=self._count_stalled,
            others={LINK_PATH: Entrance(self.links.accept, audience=LINK + self.name)},
        )
        info = BrokerInfo(self.name, self.url, self.ws_url)
        self.rest = Rest(self.driver, info, self._stall_s, self.verifier)

    async def stop(self) -> None:
        """Leave gracefully: no new clients, markers stored, the connected ones sent elsewhere."""
        log.info("broker stopping", broker=self.name)
        await self._end_loops()
        await self._leave()
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

    async def _heartbeat(self) -> None:
        reached = True
        async with HttpClient(
            speaker=f"broker {self.name}", timeout=max(1.0, self.settings.heartbeat_s)
        ) as http:
            while True:
                body = Heartbeat(
                    self.url,
                    self.ws_url,
                    len(self.driver.connections),
                    self.driver.subscriptions,
                    self._place,
                )
                try:
                    answer = await self._coordinate(http, "PUT", body)
                    if not answer.is_success:
                        raise error_of(answer)
                    if not reached:
                        log.info("the coordinator is back")
                    reached = True
                    coordinated = msgspec.json.decode(answer.content, type=HeartbeatAnswer)
                except (httpx.HTTPError, TocsinError, msgspec.DecodeError) as error:
                    if reached:
                        url = self.settings.coordinator_url
                        log.warning(f"no coordinator at {url}; trying on", reason=str(error))
                    reached = False
                else:
                    self._coordinated(coordinated)
                await asyncio.sleep(self.settings.heartbeat_s)

    def _coordinated(self, coordinated: HeartbeatAnswer) -> None:
        self._place = coordinated.place
        if coordinated.overlay is not None:
            try:
                self._overlay_assigned(coordinated.overlay.entry, coordinated.overlay.neighbours)
            except Exception:  # a fault of ours: heartbeats go on
                log.exception("the overlay could not be changed")

    def _overlay_assigned(self, entry: str | None, neighbours: dict[str, str]) -> None:
        """With every heartbeat that is answered; a coordinator that is away changes nothing."""
        self.driver.assigned(self.links, entry, neighbours)

    async def _leave(self) -> None:
        async with HttpClient(timeout=1.0) as http:
            with contextlib.suppress(httpx.HTTPError, TocsinError):
                await self._coordinate(http, "DELETE")

    async def _coordinate(
        self, http: httpx.AsyncClient, method: str, body: Heartbeat | None = None
    ) -> httpx.Response:
        path = f"/v1/brokers/{quote(self.name, safe='')}"
        return await http.request(
            method,
            self.settings.coordinator_url.rstrip("/") + path,
            content=None if body is None else msgspec.json.encode(body),
            headers={
                "authorization": f"Bearer {self._credential.token()}",
                "content-type": "application/json",
            },
        )


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


def _announced(settings: Settings) -> str:
    host = settings.public_host or settings.host
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
