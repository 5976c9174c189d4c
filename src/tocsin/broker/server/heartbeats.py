"""What a broker tells every coordinator, and whom of them it follows in the tree of brokers.

Coordinators know what brokers tell them, and nothing else, so that those who hear of the same
brokers say the same tree. While they do not, as when a line is cut, a broker follows the one that
knows the most, and of equals the first that it was given: brokers that can reach each other then
follow the same one, wherever that is possible.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import httpx
import msgspec
import structlog

from tocsin.client.addresses import Addresses
from tocsin.client.http import error_of
from tocsin.client.transport import HttpClient, distrust, tls
from tocsin.errors import TocsinError
from tocsin.protocol.coordinator import Heartbeat, HeartbeatAnswer, OverlayAssignment
from tocsin.service.keys.credentials import Credential

log = structlog.get_logger()

FRESH = 3  # heartbeats: so long an answer counts


class Coordinator:
    """One of them, as this broker knows it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reached = True
        self.distrusted: str | None = None
        self.answer: HeartbeatAnswer | None = None
        self.answered_at = 0.0


def followed(coordinators: Sequence[Coordinator], now: float, fresh_s: float) -> Coordinator | None:
    """Whose tree counts; None: nobody has answered lately."""
    heard = [
        coordinator
        for coordinator in coordinators
        if coordinator.answer is not None and now - coordinator.answered_at <= fresh_s
    ]
    return max(heard, key=_alive, default=None)


def _alive(coordinator: Coordinator) -> int:
    """How many brokers it knows to live."""
    return 0 if coordinator.answer is None else coordinator.answer.alive


class Heartbeats:
    def __init__(
        self,
        urls: str,
        name: str,
        credential: Credential,
        interval_s: float,
        authority: str,
        assigned: Callable[[OverlayAssignment], None],
    ) -> None:
        """`assigned` is told this broker's part of the overlay with every answer."""
        addresses = Addresses(urls, "coordinator_url")
        self._coordinators = [Coordinator(url) for url in addresses.all]
        self._name = name
        self._path = f"/v1/brokers/{quote(name, safe='')}"
        self._credential = credential
        self._interval_s = interval_s
        self._authority = authority
        self._assigned = assigned
        self._place: int | None = None  # among all brokers: the first that anybody gave us

    @property
    def trouble(self) -> str | None:
        """Whom nobody but an operator makes us trust."""
        for coordinator in self._coordinators:
            if coordinator.distrusted is not None:
                reason = coordinator.distrusted
                return f"no answer from the coordinator at {coordinator.url}: {reason}"
        return None

    async def run(self, beat: Callable[[int | None], Heartbeat]) -> None:
        """Until it is cancelled. `beat` makes a heartbeat that says our place."""
        timeout_s = max(1.0, self._interval_s)
        async with HttpClient(
            speaker=f"broker {self._name}", authority=self._authority, timeout=timeout_s
        ) as http:
            for coordinator in self._coordinators:  # in turn, so that one alone gives us a place
                await self._tell(http, coordinator, beat)
            loops = [self._go_on(http, coordinator, beat) for coordinator in self._coordinators]
            await asyncio.gather(*loops)

    async def leave(self) -> None:
        """Say good-bye to all of them."""
        async with HttpClient(authority=self._authority, timeout=1.0) as http:
            urls = [coordinator.url for coordinator in self._coordinators]
            calls = [self._call(http, url, "DELETE") for url in urls]
            await asyncio.gather(*calls, return_exceptions=True)

    async def _go_on(
        self,
        http: httpx.AsyncClient,
        coordinator: Coordinator,
        beat: Callable[[int | None], Heartbeat],
    ) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._tell(http, coordinator, beat)

    async def _tell(
        self,
        http: httpx.AsyncClient,
        coordinator: Coordinator,
        beat: Callable[[int | None], Heartbeat],
    ) -> None:
        try:
            answer = await self._call(http, coordinator.url, "PUT", beat(self._place))
            if not answer.is_success:
                raise error_of(answer)
            coordinated = msgspec.json.decode(answer.content, type=HeartbeatAnswer)
        except (httpx.HTTPError, TocsinError, msgspec.DecodeError) as error:
            self._lost(coordinator, error)
            return
        if not coordinator.reached:
            log.info("the coordinator is back", url=coordinator.url)
        coordinator.reached, coordinator.distrusted = True, None
        coordinator.answer, coordinator.answered_at = coordinated, time.monotonic()
        if self._place is None:
            self._place = coordinated.place
        self._follow()

    def _lost(self, coordinator: Coordinator, error: Exception) -> None:
        coordinator.distrusted = distrust(error)
        with contextlib.suppress(TocsinError):
            tls(self._authority)  # it may have been replaced
        if coordinator.reached:
            reason = coordinator.distrusted or str(error)
            log.warning(f"no coordinator at {coordinator.url}; trying on", reason=reason)
        coordinator.reached = False

    def _follow(self) -> None:
        """With every heartbeat that is answered; coordinators that are away change nothing."""
        chosen = followed(self._coordinators, time.monotonic(), FRESH * self._interval_s)
        if chosen is None or chosen.answer is None or chosen.answer.overlay is None:
            return
        try:
            self._assigned(chosen.answer.overlay)
        except Exception:  # a fault of ours: heartbeats go on
            log.exception("the overlay could not be changed")

    async def _call(
        self, http: httpx.AsyncClient, url: str, method: str, body: Heartbeat | None = None
    ) -> httpx.Response:
        return await http.request(
            method,
            url + self._path,
            content=None if body is None else msgspec.json.encode(body),
            headers={
                "authorization": f"Bearer {self._credential.token()}",
                "content-type": "application/json",
            },
        )
