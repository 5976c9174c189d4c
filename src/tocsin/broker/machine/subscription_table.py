"""Who is attached to what: backend and frontend subscriptions, subscribers, connections.

Only records and the upkeep of their links; decides nothing and emits nothing. Subscribers stay
attached while they are offline, because they will come back (BAD III.C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tocsin.broker.machine.watching import NOBODY, Watcher
from tocsin.caching import Standing
from tocsin.model import Result

if TYPE_CHECKING:
    from tocsin.broker.machine.effects import Answer, Asker


FEW = 8
"""Most backend subscriptions have one subscriber here, and there are a million of them: up to so
many need no dict."""

_NOBODY: Mapping[int, Any] = MappingProxyType({})

V = TypeVar("V")


def _nobody() -> Mapping[int, Any]:
    """Connections, while there are none: shared by all."""
    return _NOBODY


_Held = tuple["Frontend", ...] | dict[int, "Frontend"]


@dataclass(slots=True, eq=False)
class Backend:
    """A backend subscription as this broker knows it."""

    id: int
    epoch: str
    head: int  # the newest result known to exist
    fetched: int  # the newest that was cached or passed over: clients are told up to here
    learned: int  # the core's event that told this epoch
    filter: Any = None  # results are the records that it matches: their positions have holes
    channel: str = ""
    pages: tuple[str, ...] = ()  # fields of its results that hold attachments
    keys: tuple[str, ...] = ()  # those that name the story an attachment belongs to
    claims: tuple[str, ...] = ()  # of its subscribers' tokens: what its arguments are bound to
    held: _Held = ()
    signalled: Mapping[int, None] = field(default_factory=_nobody)  # connections that want signals
    inline: Mapping[int, None] = field(default_factory=_nobody)  # connections that want results
    fetching: bool = False  # a fetch ahead is under way or waits for its retry
    failures: int = 0
    polls: tuple[Get, ...] = ()

    @property
    def frontends(self) -> Mapping[int, Frontend]:
        return _as_dict(self.held)


@dataclass(slots=True, eq=False)
class Frontend(Standing):
    """A frontend subscription served here. Its subscriber is away while it has no connection."""

    id: int
    subscriber: str
    backend: Backend
    durable: int  # of what is acknowledged, what the cluster has stored
    attached: int  # the core's event that attached it


@dataclass(slots=True, eq=False)
class Get:
    """A get under way. `epoch` is that of `after`."""

    request: Asker[Answer] | None
    subscriber: str
    subscription: int
    after: int | None
    epoch: str | None
    limit: int
    wait_until: float | None
    done: bool = False  # of a poll: answered
    # set while a missed part is fetched
    cached: list[Result] = field(default_factory=list)
    begin: int = 0  # `after` as it was resolved
    upto: int = 0
    tail: int = 0


@dataclass(slots=True)
class Subscriber:
    held: _Held = ()
    connections: Mapping[int, bool] = field(default_factory=_nobody)  # connection -> inline

    @property
    def frontends(self) -> Mapping[int, Frontend]:
        return _as_dict(self.held)


def _as_dict(held: _Held) -> Mapping[int, Frontend]:
    return held if isinstance(held, dict) else {frontend.id: frontend for frontend in held}


def _with(held: _Held, frontend: Frontend) -> _Held:
    if isinstance(held, dict):
        held[frontend.id] = frontend
        return held
    others = tuple(other for other in held if other.id != frontend.id)
    if len(others) < FEW:
        return (*others, frontend)
    return {known.id: known for known in (*others, frontend)}


def _without(held: _Held, frontend: Frontend) -> _Held:
    if isinstance(held, dict):
        del held[frontend.id]
        return held or ()
    return tuple(other for other in held if other is not frontend)


class SubscriptionTable:
    def __init__(self) -> None:
        self.event = 0  # counts what happened: tells which of two facts was learned first
        self.backends: dict[int, Backend] = {}
        self.frontends: dict[int, Frontend] = {}
        self.subscribers: dict[str, Subscriber] = {}
        self.connections: dict[int, str] = {}  # connection -> subscriber
        self.inline = 0  # how many of these want results at once
        self.filters: dict[int, Backend] = {}  # backend subscriptions whose results are routed
        self.refiltered = 0  # counts the changes of these
        self.bound: set[int] = set()  # backend subscriptions that are bound to claims
        self.watcher: Watcher = NOBODY

    def next_event(self) -> int:
        self.event += 1
        return self.event

    def holds(self, backend: Backend) -> bool:
        """False once it was removed, even if another of the same id has come since."""
        return self.backends.get(backend.id) is backend

    def open(self, backend: Backend) -> None:
        backend.channel = intern(backend.channel)
        self.backends[backend.id] = backend
        if backend.claims:
            self.bound.add(backend.id)
        if backend.filter is not None:
            self.filters[backend.id] = backend
            self.refiltered += 1

    def close(self, backend: Backend) -> None:
        del self.backends[backend.id]
        self.bound.discard(backend.id)
        if self.filters.pop(backend.id, None) is not None:
            self.refiltered += 1

    def add(self, frontend: Frontend) -> None:
        frontend.subscriber = intern(frontend.subscriber)
        self.frontends[frontend.id] = frontend
        backend, subscriber = frontend.backend, self.subscribers.get(frontend.subscriber)
        if subscriber is None:
            subscriber = self.subscribers[frontend.subscriber] = Subscriber()
        backend.held = _with(backend.held, frontend)
        subscriber.held = _with(subscriber.held, frontend)
        for connection, inline in subscriber.connections.items():
            _link(frontend.backend, connection, inline)
        self.watcher.attached(frontend)

    def remove(self, frontend: Frontend) -> None:
        del self.frontends[frontend.id]
        backend, subscriber = frontend.backend, self.subscribers[frontend.subscriber]
        backend.held = _without(backend.held, frontend)
        subscriber.held = _without(subscriber.held, frontend)
        # Given up and taken again, it has two numbers here until the cluster's answers are in.
        if all(other.backend is not frontend.backend for other in subscriber.frontends.values()):
            for connection in subscriber.connections:
                _unlink(frontend.backend, connection)
        self._tidy(frontend.subscriber)
        self.watcher.detached(frontend)

    def connect(self, connection: int, name: str, inline: bool) -> None:
        self.connections[connection] = name
        subscriber = self.subscribers.setdefault(name, Subscriber())
        self.inline += inline - subscriber.connections.get(connection, False)
        subscriber.connections = {**subscriber.connections, connection: inline}
        for frontend in subscriber.frontends.values():
            _link(frontend.backend, connection, inline)
        if len(subscriber.connections) == 1:
            self.watcher.arrived(name)

    def disconnect(self, connection: int) -> str | None:
        """Whose connection it was."""
        name = self.connections.pop(connection, None)
        if name is None:
            return None
        subscriber = self.subscribers[name]
        self.inline -= subscriber.connections[connection]
        subscriber.connections = _left(subscriber.connections, connection)
        for frontend in subscriber.frontends.values():
            _unlink(frontend.backend, connection)
        if not subscriber.connections:
            self.watcher.left(name)
        self._tidy(name)
        return name

    def of(self, name: str) -> Subscriber:
        return self.subscribers.get(name) or Subscriber()

    def _tidy(self, name: str) -> None:
        subscriber = self.subscribers[name]
        if not subscriber.frontends and not subscriber.connections:
            del self.subscribers[name]


def _link(backend: Backend, connection: int, inline: bool) -> None:
    if inline:
        backend.inline = _joined(backend.inline, connection)
    else:
        backend.signalled = _joined(backend.signalled, connection)


def _unlink(backend: Backend, connection: int) -> None:
    backend.signalled = _left(backend.signalled, connection)
    backend.inline = _left(backend.inline, connection)


def _joined(connections: Mapping[int, None], connection: int) -> Mapping[int, None]:
    if not isinstance(connections, dict):
        return {connection: None}
    connections[connection] = None
    return connections


def _left(connections: Mapping[int, V], connection: int) -> Mapping[int, V]:
    """The same without one; none take no room."""
    if isinstance(connections, dict):
        connections.pop(connection, None)
    return connections or _NOBODY
