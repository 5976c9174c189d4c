"""Who is connected to a service, how many may be, and who makes room for a newcomer.

A connection is a stranger's until a token (or a signed notice) was shown on it. When there are too
many, those of strangers are closed first, the oldest first, then those that wait for a further
request; one that is being served never is. Whoever reads nothing of an answer, or takes too long
over the head of a request, is closed as well. Must not know what travels over a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections import Counter as Counted
from collections.abc import Callable
from typing import Any

import structlog
from msgspec import Struct
from prometheus_client import Counter

from tocsin.settings import Settings

log = structlog.get_logger()

REFUSED = Counter("tocsin_refused_connections_total", "Connections not let in, or cut", ["reason"])

KEEP_ALIVE_S = 5.0  # a connection that waits for a further request is kept so long
UNREAD_S = 10.0  # within which a reader takes at least …
UNREAD_BYTES = 10 * 1024  # … so much of what waits for it
LOG_EVERY_S = 10.0
SWEEP_S = 1.0
MOST_FILES = 1024 * 1024


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    connections: int  # at once
    strangers: int  # at once among them; when they are too many, half of them from one address
    head_s: float  # the head of a request comes within
    sweep_s: float = SWEEP_S
    unread_s: float = UNREAD_S

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if not 0 < files < MOST_FILES:  # unlimited is written as a negative number
            files = MOST_FILES
        # Logs, databases, peers and whoever was cut a moment ago need files as well.
        room = files - min(max(128, files // 8), files // 2)
        connections = min(settings.connection_limit or room, room)
        strangers = max(1, min(settings.stranger_limit, connections * 3 // 4))
        return cls(connections=connections, strangers=strangers, head_s=settings.request_patience_s)


def raise_file_limit() -> None:
    """As many files as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # what there is must do
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Connection(socket.socket):
    """An accepted socket. Its transport closes it like any other."""

    def __init__(self, connections: Connections, accepted: socket.socket, address: str) -> None:
        kind = accepted.family, accepted.type, accepted.proto
        super().__init__(*kind, fileno=accepted.detach())
        self.connections = connections
        self.address = address
        self.number = self.fileno()
        self.cut: Callable[[], object] = self._shut
        self.unsent_bytes: Callable[[], int] = lambda: 0

    def close(self) -> None:
        self.connections.gone(self)
        super().close()

    def _shut(self) -> None:
        """Whoever reads from it, be it a transport or a handshake, finds its end."""
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    # What happens on it, as its protocol sees it

    def known(self) -> None:
        """Whoever is there has shown who they are."""
        self.connections.known(self)

    def head_began(self) -> None:
        self.connections.wait(self, for_head=True)

    def head_came(self) -> None:
        self.connections.serve(self)

    def answered(self, *, next_began: bool) -> None:
        self.connections.wait(self, for_head=next_began)


_OPEN: dict[int, Connection] = {}
"""Accepted connections of the process by their file number, which no two have at once."""


def of_transport(transport: asyncio.BaseTransport) -> Connection | None:
    """The accepted connection under a transport."""
    below: Any = transport.get_extra_info("socket")
    return None if below is None else _OPEN.get(below.fileno())


class Connections:
    """All connections of one service, over however many listeners."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[Connection] = set()
        # Each of these is in the order in which connections came into it.
        self._strangers: dict[Connection, None] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._heads: dict[Connection, float] = {}  # a head of a request is to come, since
        self._idle: dict[Connection, float] = {}  # nothing is to come, since
        self._unread: dict[Connection, tuple[int, float]] = {}  # unsent bytes, and when
        self._sweep: asyncio.TimerHandle | None = None
        self._refused: Counted[str] = Counted()
        self._logged_at = -LOG_EVERY_S

    def __len__(self) -> int:
        return len(self._all)

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def admit(self, accepted: socket.socket, address: str) -> Connection | None:
        """A newcomer. None: nobody could make room."""
        if len(self._strangers) >= self.limits.strangers:
            own = self._by_address.get(address, {})
            crowd = len(own) >= max(1, self.limits.strangers // 2)
            self._cut(next(iter(own if crowd else self._strangers)), "strangers")
        if len(self._all) >= self.limits.connections and not self.make_room("full"):
            self.count("full")
            accepted.close()
            return None
        connection = Connection(self, accepted, address)
        _OPEN[connection.number] = connection
        self._all.add(connection)
        self._meet(connection)
        self.wait(connection, for_head=True)
        return connection

    def make_room(self, reason: str) -> bool:
        """Close the connection that is missed least. False: all are being served."""
        for waiting in (self._strangers, self._heads, self._idle):
            if waiting:
                self._cut(next(iter(waiting)), reason)
                return True
        return False

    def count(self, reason: str) -> None:
        """One connection was not let in, or cut. The log hears of many together."""
        REFUSED.labels(reason).inc()
        self._refused[reason] += 1
        now = time.monotonic()
        if now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            counts, self._refused = dict(self._refused), Counted()
            log.warning("connections were refused or cut", open=len(self._all), **counts)

    # What connections tell

    def known(self, connection: Connection) -> None:
        self._leave_strangers(connection)
        self._heads.pop(connection, None)

    def wait(self, connection: Connection, *, for_head: bool) -> None:
        if connection not in self._all:
            return
        begun_at = self._heads.pop(connection, None)
        self._idle.pop(connection, None)
        now = time.monotonic()
        if for_head:
            self._heads[connection] = now if begun_at is None else begun_at
        else:
            self._idle[connection] = now
        if self._sweep is None:
            self._sweep_later()

    def serve(self, connection: Connection) -> None:
        self._heads.pop(connection, None)
        self._idle.pop(connection, None)
        if connection in self._strangers:  # it did something: others are older
            self._meet(connection)

    def unread(self, connection: Connection) -> None:
        """What it is sent is not taken as fast."""
        if connection in self._all:
            self._unread[connection] = connection.unsent_bytes(), time.monotonic()
            if self._sweep is None:
                self._sweep_later()

    def read(self, connection: Connection) -> None:
        self._unread.pop(connection, None)

    def gone(self, connection: Connection) -> None:
        if _OPEN.get(connection.number) is connection:
            del _OPEN[connection.number]
        self._forget(connection)

    # Keeping order

    def _meet(self, connection: Connection) -> None:
        for strangers in (
            self._strangers,
            self._by_address.setdefault(connection.address, {}),
        ):
            strangers.pop(connection, None)
            strangers[connection] = None

    def _leave_strangers(self, connection: Connection) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            of_address = self._by_address[connection.address]
            del of_address[connection]
            if not of_address:
                del self._by_address[connection.address]

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        self._leave_strangers(connection)
        for waiting in (self._heads, self._idle, self._unread):
            waiting.pop(connection, None)

    def _cut(self, connection: Connection, reason: str) -> None:
        self._forget(connection)
        self.count(reason)
        connection.cut()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(self.limits.sweep_s, self._sweep_now)

    def _sweep_now(self) -> None:
        self._sweep = None
        now = time.monotonic()
        for waiting, most_s, reason in (
            (self._heads, self.limits.head_s, "slow_head"),
            (self._idle, KEEP_ALIVE_S + SWEEP_S, "idle"),
        ):
            while waiting:
                connection, since = next(iter(waiting.items()))
                if now - since < most_s:
                    break
                self._cut(connection, reason)
        for connection, (unsent_bytes, since) in list(self._unread.items()):
            if now - since >= self.limits.unread_s:
                left_bytes = connection.unsent_bytes()
                if left_bytes > unsent_bytes - UNREAD_BYTES:
                    self._cut(connection, "unread")
                else:
                    self._unread[connection] = left_bytes, now
        if self._heads or self._idle or self._unread:
            self._sweep_later()
