"""Feeds the machine with events and carries its effects out; the one place that holds both it and
I/O. Decides nothing.

Single-threaded: everything here runs in the event loop. Effects are carried out in the order in
which the machine gave them: those that come of carrying one out wait for those before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, get_args

import structlog

from tocsin.broker.machine import BrokerMachine, MachineConfig
from tocsin.broker.machine import effects as machine_effects
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import (
    Acked,
    Answer,
    Asker,
    ClusterCall,
    Effect,
    Fail,
    Recalled,
    Rejected,
    StoreReplaced,
    Subscribed,
    Synchronised,
    Unsubscribed,
)
from tocsin.broker.server.client_connections import ClientConnection, ClientConnections
from tocsin.broker.server.cluster_calls import MARKERS, ClusterCalls
from tocsin.broker.server.cluster_link import ClusterLink, new_heads
from tocsin.broker.server.metrics import Counts
from tocsin.broker.server.pages import PageBytes, make_shelf
from tocsin.broker.server.relay import relay_room
from tocsin.broker.server.shown import ShownTokens
from tocsin.errors import TocsinError
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Message, Relink, Send
from tocsin.policies import parse_policy
from tocsin.policies.message import parse_message_policy
from tocsin.policies.page import parse_page_policy
from tocsin.protocol.cluster import News, Noticed
from tocsin.service.room import Room
from tocsin.settings import Settings

log = structlog.get_logger()

TICK_S = 0.05  # how exactly the machine keeps its times

Performer = Callable[[Any], None]


class LinkSender(Protocol):
    """The links to neighbours, as `links.Links` keeps them."""

    def send(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None: ...
    def close(self, neighbour: str, incarnation: int) -> None: ...
    def set_neighbours(self, neighbours: dict[str, str]) -> None: ...


class Driver:
    """The live broker's one object that everything else calls."""

    link: ClusterLink
    counts: Counts
    connections: ClientConnections
    machine: BrokerMachine
    pages: PageBytes
    relaying: Room  # of publications
    shown: ShownTokens

    def __init__(self, settings: Settings, link: ClusterLink, url: str) -> None:
        self.settings = settings
        self.link = link
        self.counts = Counts()
        self.machine = BrokerMachine(_config(settings), time.monotonic())
        self.connections = ClientConnections(settings.broker_name, self.counts)
        self.relaying = relay_room(settings.body_limit_bytes)
        self.shown = ShownTokens(lambda: self.core.table, self.connections)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._links: LinkSender | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls = ClusterCalls(link, url, self.machine, self.counts, self.spawn, self.perform)
        self.pages = PageBytes(
            self.machine.pages,
            make_shelf(settings.page_cache, settings.broker_name),
            link,
            self.spawn,
            self.perform,
        )
        self._queue: deque[Effect] = deque()
        self._performing = False
        self._performers = self._table()

    @property
    def core(self) -> BrokerCore:
        """What is served now, to be looked at."""
        return self.machine.core

    @property
    def subscriptions(self) -> int:
        return len(self.core.table.frontends)

    # Time and tasks

    def tick(self) -> None:
        self.perform(self.machine.tick(time.monotonic()))

    async def flush_markers(self) -> None:
        """Store what was acknowledged so far, if the cluster answers."""
        for _ in range(3):
            self.perform(self.machine.flush_markers(time.monotonic()))
            waiting = [task for task in self._tasks if task.get_name() == MARKERS]
            if not waiting:
                return
            await asyncio.wait(waiting, timeout=2.0)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the broker failed", exc_info=task.exception())

    # Events

    def notice(self, notice: News) -> Noticed:
        now = time.time()
        for head in notice.heads:
            if head.results:
                self.counts.lag_s.observe(max(0.0, now - head.results[0].at))
        heads, detached = new_heads(notice.heads), notice.detached
        news = notice.store_id, heads, detached
        self.perform(self.machine.notice(*news, time.monotonic(), number=notice.number))
        core = self.core
        unknown = [head.backend for head in heads if head.backend not in core.table.backends]
        return Noticed(core.keeps_results, unknown)

    def connect(self, connection: ClientConnection, *, patient: bool = True) -> None:
        self.connections.add(connection)
        self.shown.arriving(connection.identity)
        subscriber = connection.identity.subject
        self.perform(
            self.machine.connect(
                connection.number,
                subscriber,
                connection.inline,
                time.monotonic(),
                patient=patient,
                token=connection.token,
            )
        )

    def left(self, connection: ClientConnection) -> None:
        """A connection's client is gone."""
        if self.connections.remove(connection):
            self.perform(self.machine.disconnected(connection.number, time.monotonic()))

    def attach(
        self,
        request: Asker[machine_effects.Attached],
        subscriber: str,
        token: str,
        needs: int | None = None,
    ) -> None:
        now = time.monotonic()
        self.perform(self.machine.attach(request, subscriber, now, needs=needs, token=token))

    def recall(self, request: Asker[Recalled], wanted: Filter, wait_s: float) -> None:
        self.perform(self.machine.recall(request, wanted, wait_s, time.monotonic()))

    def set_policy(self, text: str) -> None:
        self.perform(self.machine.set_policy(parse_policy(text), time.monotonic()))

    # The overlay

    def assigned(self, links: LinkSender, entry: str | None, neighbours: dict[str, str]) -> None:
        """Who is beside us, and where publications enter."""
        self._links = links
        links.set_neighbours(neighbours)
        self.perform(self.machine.assigned(entry, time.monotonic()))

    def linked(self, neighbour: str, incarnation: int) -> None:
        self.perform(self.machine.linked(neighbour, incarnation, time.monotonic()))

    def unlinked(self, neighbour: str, incarnation: int) -> None:
        self.perform(self.machine.unlinked(neighbour, incarnation, time.monotonic()))

    def heard(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None:
        now = time.monotonic()
        self.perform(self.machine.heard(neighbour, incarnation, sequence, message, now))

    # Effects

    def perform(self, effects: Iterable[Effect]) -> None:
        queue = self._queue
        queue.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while queue:
                self._carry_out(queue.popleft())
        finally:
            self._performing = False

    def _carry_out(self, effect: Effect) -> None:
        """One that cannot be carried out keeps none behind it from being so; whoever waits for it
        hears of it."""
        try:
            self._performers[type(effect)](effect)
        except Exception:
            log.exception("an effect could not be carried out", effect=type(effect).__name__)
            error = TocsinError("an internal error; the broker's log has the details")
            if isinstance(effect, ClusterCall):
                self._queue.extend(self.machine.failed(effect.call, error, time.monotonic()))
            else:
                _fail(Fail(getattr(effect, "request", None), error))

    def _table(self) -> dict[type, Performer]:
        connections = self.connections
        table: dict[type, Performer] = {kind: self._calls.carry for kind in get_args(ClusterCall)}
        return (
            table
            | self.pages.performers
            | {
                machine_effects.CloseStream: self._calls.close_stream,
                Send: self._send,
                Relink: self._relink,
                machine_effects.Welcome: self._welcome,
                machine_effects.Refuse: connections.refuse,
                machine_effects.Signal: connections.signal,
                machine_effects.SendInline: connections.send_inline,
                Acked: connections.acked,
                machine_effects.AckedMany: connections.acked_many,
                machine_effects.NotAcked: connections.not_acked,
                machine_effects.Ended: connections.ended,
                machine_effects.CloseConnection: connections.close,
                Answer: _answer,
                machine_effects.Attached: _answer,
                Subscribed: _answer,
                Unsubscribed: _answer,
                Recalled: _answer,
                Fail: _fail,
                Synchronised: self._synchronised,
                StoreReplaced: _log_replaced,
                Rejected: self._rejected,
            }
        )

    def _welcome(self, effect: machine_effects.Welcome) -> None:
        self.connections.welcome(effect)
        for connection in self.connections.of_numbers([effect.connection]):
            self.shown.arrived(connection.identity)

    def _send(self, effect: Send) -> None:
        if self._links is not None:
            self._links.send(effect.neighbour, effect.incarnation, effect.sequence, effect.message)

    def _relink(self, effect: Relink) -> None:
        if self._links is not None:
            self._links.close(effect.neighbour, effect.incarnation)

    def _synchronised(self, effect: Synchronised) -> None:
        log.info("compared everything with the cluster", subscriptions=self.subscriptions)
        if not self.ready.done():
            self.ready.set_result(None)

    def _rejected(self, effect: Rejected) -> None:
        if not self.ready.done():
            self.ready.set_exception(effect.error)


def _answer(effect: Any) -> None:
    effect.request.answered(effect)


def _fail(effect: Fail) -> None:
    if effect.request is not None:
        effect.request.failed(effect.error)


def _log_replaced(effect: StoreReplaced) -> None:
    log.warning("the cluster has another store; starting anew", store=effect.store_id)


def _config(settings: Settings) -> MachineConfig:
    return MachineConfig(
        name=settings.broker_name,
        policy=parse_policy(settings.cache_policy),
        budget_bytes=settings.cache_bytes,
        message_policy=parse_message_policy(settings.message_policy),
        message_slots=settings.message_slots,
        page_policy=parse_page_policy(settings.page_policy),
        page_bytes=settings.page_cache_bytes,
        news_poll_s=settings.news_poll_s,
        # Each tick stores what was gathered since the last one, unless that is too often.
        marker_flush_s=settings.marker_flush_s if settings.marker_flush_s > TICK_S else 0.0,
        jitter=random.random(),
    )
