"""The links of a broker with its neighbours: dialled or accepted, watched, and dialled again.

Of two brokers the one with the smaller name dials, for as long as the neighbour is wanted. Of two
sockets between the same brokers the one with the higher incarnation counts, at both ends. Must not
know what messages mean, nor why somebody is a neighbour.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import structlog
from msgspec.structs import asdict
from picows import WSError, WSHandshakeError, WSUpgradeResponse, ws_connect

from tocsin.backoff import Backoff
from tocsin.broker.server.link import Limits, Link, LinkCounts
from tocsin.broker.server.upgrades import QUIET, Asked, Refused
from tocsin.client.transport import distrust, tls
from tocsin.errors import Conflict, Forbidden, InvalidInput, NotFound, UpgradeRequired
from tocsin.protocol.client import COME_AGAIN, GOING_AWAY, UNAUTHENTICATED, UPGRADE_REQUIRED
from tocsin.protocol.client import PATH as CLIENTS_PATH
from tocsin.protocol.failure import read_error
from tocsin.protocol.link import INCARNATION_HEADER, PATH, Hello, Message
from tocsin.protocol.version import VERSION, check_peer
from tocsin.service.keys.credentials import LINK, Credential
from tocsin.service.tokens import Identity

log = structlog.get_logger()

STEADY_S = 5.0  # a link that held so long was a good one: the next failure starts small
DIAL_S = 5.0
UNREACHED = (OSError, TimeoutError, WSError, UpgradeRequired)


class Listener(Protocol):
    """Who is told of links and of what comes over them."""

    def linked(self, neighbour: str, incarnation: int) -> None: ...
    def unlinked(self, neighbour: str, incarnation: int) -> None: ...
    def heard(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None: ...


class Links:
    """Everything here is called in the event loop, and nothing waits but `stop`. What is told never
    comes while `send`, `close` or `set_neighbours` run."""

    def __init__(
        self,
        name: str,
        credential: Credential,
        listener: Listener,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.time,
        store_id: Callable[[], str | None] = lambda: None,
        authority: str = "",
    ) -> None:
        """`authority` vouches for neighbours. `store_id`: of the cluster's store
        that this broker is with; what brokers of different stores route cannot be told apart, so
        that they are not linked."""
        self.name = name
        self.counts = LinkCounts()
        self.limits = limits
        self._credential = credential
        self._listener = listener
        self._clock = clock
        self._store_id = store_id
        self._authority = authority
        self._wanted: dict[str, str] = {}
        self._links: dict[str, Link] = {}
        self._newest: dict[str, int] = {}  # incarnation of a neighbour's links, ever
        self._linked: set[str] = set()  # neighbours that we were ever linked with
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._dirty: dict[Link, None] = {}
        self._beats: asyncio.TimerHandle | None = None

    @property
    def up(self) -> int:
        return len(self._links)

    def set_neighbours(self, neighbours: Mapping[str, str]) -> None:
        """Be linked with these, and nobody else. By name: where each takes WebSockets."""
        self._wanted = dict(neighbours)
        for name in self._links.keys() - self._wanted.keys():
            self._links[name].cut(GOING_AWAY, "no longer neighbours")
        for name in self._dials.keys() - self._wanted.keys():
            self._dials.pop(name).cancel()
        for name in self._wanted:
            if self.name < name and name not in self._dials:
                self._dials[name] = asyncio.create_task(self._dial(name))
        if self._wanted and self._beats is None:
            self._beat()

    def send(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None:
        """Over this incarnation of the link, or not at all."""
        link = self._links.get(neighbour)
        if link is not None and link.incarnation == incarnation:
            link.send(sequence, message)

    def close(self, neighbour: str, incarnation: int) -> None:
        """Give this incarnation up; if the neighbour is wanted, the next one follows."""
        link = self._links.get(neighbour)
        if link is not None and link.incarnation == incarnation:
            link.cut(COME_AGAIN, "a message was lost")

    async def stop(self) -> None:
        dials = list(self._dials.values())
        self.set_neighbours({})
        if self._beats is not None:
            self._beats.cancel()
            self._beats = None
        await asyncio.gather(*dials, return_exceptions=True)
        for link in list(self._links.values()):
            if link.transport is not None:
                link.transport.disconnect(False)
                with contextlib.suppress(WSError):
                    await link.transport.wait_disconnected()

    # Dialling and accepting

    async def _dial(self, neighbour: str) -> None:
        backoff, reason = Backoff(Random(), most_s=self.limits.most_backoff_s), ""
        while True:
            link = Link(self, neighbour, self._next_incarnation(neighbour), dialled=True)
            try:
                await self._dial_once(link)
                reason = ""
            except UNREACHED as error:
                self._learn(neighbour, error)
                if _reason(error) != reason:  # not with every try
                    reason = _reason(error)
                    log.info(
                        "no link with a neighbour; trying on", neighbour=neighbour, reason=reason
                    )
            except Exception:
                log.exception("dialling failed in an unforeseen way; trying on")
            finally:
                link.cut(GOING_AWAY, "given up")  # it may open yet
            if link.opened_at and time.monotonic() - link.opened_at >= STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _dial_once(self, link: Link) -> None:
        """Returns when the link is lost."""
        token = self._credential.token(LINK + link.neighbour)
        link.store_id = self._store_id()
        hello = asdict(Hello(self.name, link.incarnation, VERSION, link.store_id))
        query = urlencode({key: value for key, value in hello.items() if value is not None})
        url = urlsplit(self._wanted[link.neighbour])
        path = url.path.removesuffix(CLIENTS_PATH) + PATH  # behind a proxy it has a prefix
        async with asyncio.timeout(DIAL_S):
            transport, _ = await ws_connect(
                lambda: link,
                url._replace(path=path, query=query).geturl(),
                extra_headers={"Authorization": f"Bearer {token}"},
                max_frame_size=self.limits.unsent_bytes,
                max_redirects=0,
                ssl_context=tls(self._authority),
                logger_name=QUIET,
            )
        await transport.wait_disconnected()
        if link.refused is not None:
            raise link.refused

    def _next_incarnation(self, neighbour: str) -> int:
        """It grows, even if the clock does not."""
        next_ = max(self._newest.get(neighbour, 0) + 1, int(self._clock() * 1e6))
        self._newest[neighbour] = next_
        return next_

    def _learn(self, neighbour: str, error: BaseException) -> None:
        """If our clock has gone back since before we were started, only the neighbour knows."""
        response: WSUpgradeResponse | None = None
        if isinstance(error, WSHandshakeError):
            response = error.response
        newest = response.headers.get(INCARNATION_HEADER, "") if response is not None else ""
        if _is_incarnation(newest):
            self._newest[neighbour] = max(self._newest[neighbour], int(newest))

    def accept(self, asked: Asked) -> Link:
        """A neighbour dials."""
        asked.identity.require("broker")
        hello = _hello(asked)
        name = hello.broker
        if name != asked.identity.subject:
            raise Forbidden(f"this token is not of broker {name!r}", field="broker")
        if name >= self.name:
            raise InvalidInput(f"{self.name!r} dials {name!r}: its name is smaller", field="broker")
        if name not in self._wanted:
            raise NotFound(
                f"{name!r} is no neighbour of {self.name!r}",
                field="broker",
                hint="one of the two has yet to hear of it from the coordinator; try again",
            )
        check_peer(asked.protocol, f"broker {name}", f"broker {self.name}")
        store_id = self._store_id()
        if hello.store_id not in (None, store_id):
            raise Conflict(
                f"{name!r} is not with the store that {self.name!r} is with",
                field="store_id",
                hint="one of the two has yet to hear that it was replaced; try again",
            )
        newest = self._newest.get(name, 0)
        if hello.incarnation <= newest:
            error = Conflict(f"there was incarnation {newest} already", field="incarnation")
            raise Refused(error, {INCARNATION_HEADER: str(newest)})
        self._newest[name] = hello.incarnation
        link = Link(self, name, hello.incarnation, dialled=False)
        link.store_id = store_id
        link.identity = asked.identity
        return link

    def cut_revoked(self, refusal: Callable[[Identity], str | None]) -> None:
        """Cut links whose neighbour's token is no longer taken. One that we dialled showed none:
        its name is what is known of it."""
        for name, link in list(self._links.items()):
            shown = link.identity or Identity(name, frozenset({"broker"}), 0.0)
            reason = refusal(shown)
            if reason is not None:
                link.cut(UNAUTHENTICATED, reason)

    # What links call

    def opened(self, link: Link) -> None:
        name = link.neighbour
        try:
            check_peer(link.peer_version, f"broker {name}", f"broker {self.name}")
        except UpgradeRequired as error:
            link.refused = error
            link.cut(UPGRADE_REQUIRED, error.message)
            return
        if name not in self._wanted or link.incarnation < self._newest[name]:
            link.cut(GOING_AWAY, "no longer wanted")
            return
        if link.store_id != self._store_id():
            link.cut(COME_AGAIN, "the cluster's store was replaced")
            return
        before = self._links.get(name)
        if before is not None:
            before.cut(GOING_AWAY, "there is a newer one")
            self.lost(before)
        self._links[name] = link
        self.counts.relinks += name in self._linked
        self._linked.add(name)
        log.info("linked", neighbour=name, incarnation=link.incarnation)
        self._listener.linked(name, link.incarnation)

    def received(self, link: Link, sequence: int, message: Message) -> None:
        self._listener.heard(link.neighbour, link.incarnation, sequence, message)

    def lost(self, link: Link) -> None:
        if self._links.get(link.neighbour) is link:
            del self._links[link.neighbour]
            log.info("unlinked", neighbour=link.neighbour, incarnation=link.incarnation)
            self._listener.unlinked(link.neighbour, link.incarnation)

    def flush_soon(self, link: Link) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        self._dirty[link] = None

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for link in dirty:
            link.flush()

    def _beat(self) -> None:
        self._beats = asyncio.get_running_loop().call_later(self.limits.beat_s, self._beat)
        for link in list(self._links.values()):
            link.beat()


def _reason(error: BaseException) -> str:
    if isinstance(error, UpgradeRequired):
        return str(error)
    if reason := distrust(error):
        return reason
    if isinstance(error, WSHandshakeError) and error.raw_body:
        known = read_error(error.raw_body)
        return str(known) if known else error.raw_body.decode("utf-8", "replace")
    return repr(error)


def _hello(asked: Asked) -> Hello:
    name, incarnation = asked.first("broker") or "", asked.first("incarnation") or ""
    if not _is_incarnation(incarnation):
        raise InvalidInput("an incarnation is a positive whole number", field="incarnation")
    return Hello(name, int(incarnation), store_id=asked.first("store_id"))


def _is_incarnation(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < 1 << 63
