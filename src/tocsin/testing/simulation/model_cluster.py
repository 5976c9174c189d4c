"""A cluster in memory, as small as can be: the truth that the checkers compare with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from tocsin.broker.machine.effects import Marker
from tocsin.broker.machine.events import NewHead, RangeAnswer
from tocsin.errors import NotFound, Unavailable
from tocsin.model import FILTERED, BackendSubscription, Departure, Result, Subscription
from tocsin.storage.store.subscriptions import Page
from tocsin.testing.simulation.model_log import ModelLog

SUBSCRIPTIONS_PER_CALL = 2
"""So few that there are changes between pages."""


@dataclass
class StoredBackend:
    id: int
    epoch: str
    head: int = 0
    floor: int = 0
    sequence: int = 0


@dataclass
class StoredFrontend:
    id: int
    subscriber: str
    backend: int
    broker: str
    marker: int
    sequence: int


@dataclass
class ModelCluster:
    log: ModelLog = field(default_factory=ModelLog)
    stores: int = 1  # so far: the store may be lost and made anew
    registered: set[str] = field(default_factory=set)
    logs: dict[str, ModelLog] = field(default_factory=dict)  # by epoch
    down: bool = False  # nobody gets an answer
    attachments: tuple[str, ...] = ()  # fields of channels' results that hold them
    keys: tuple[str, ...] = ()  # those that name their stories
    sequence: int = 0
    epochs: int = 0
    subscriptions: int = 0
    backends: dict[int, StoredBackend] = field(default_factory=dict)
    frontends: dict[int, StoredFrontend] = field(default_factory=dict)
    detachments: dict[tuple[str, int], int] = field(default_factory=dict)
    history: dict[tuple[str, int], Result] = field(default_factory=dict)  # (epoch, position)
    floors: dict[str, int] = field(default_factory=dict)  # epoch -> highest floor ever
    epoch_order: dict[str, int] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)  # subscriber -> connection that moved it
    begins: dict[tuple[int, str], int] = field(default_factory=dict)  # (subscription, epoch)

    def _step(self) -> int:
        self.sequence += 1
        return self.sequence

    def _new_epoch(self) -> str:
        self.epochs += 1
        name = f"epoch-{self.epochs}"
        self.epoch_order[name] = self.epochs
        self.floors[name] = 0
        self.logs[name] = self.log
        return name

    @property
    def store_id(self) -> str:
        return f"store-{self.stores}"

    # -- what checkers compare with -------------------------------------------------------------

    def following(self, backend: int, epoch: str, position: int) -> Result | None:
        """The first result after a position that there ever was."""
        if backend in self.log.filters:
            log = self.logs[epoch]
            return next(iter(log.results(backend, position, log.head)), None)
        return self.history.get((epoch, position + 1))

    def results(self, backend: int, epoch: str, after: int, upto: int) -> list[Result]:
        """All that there ever were in (after, upto]."""
        if backend in self.log.filters:
            return self.logs[epoch].results(backend, after, upto)
        return [self.history[epoch, position] for position in range(after + 1, upto + 1)]

    def floor(self, backend: int, epoch: str) -> int:
        return self.logs[epoch].floor if backend in self.log.filters else self.floors[epoch]

    # -- what makes the world change ----------------------------------------------------------

    def publish(self, backend: int, now: float, payload: bytes) -> Result | None:
        stored = self.backends.get(backend)
        if stored is None:
            return None
        stored.head += 1
        stored.sequence = self._step()
        result = Result(backend, stored.head, now, payload)
        self.history[stored.epoch, stored.head] = result
        return result

    def retire(self, backend: int, keep: int) -> None:
        stored = self.backends.get(backend)
        if stored is not None:
            stored.floor = max(stored.floor, stored.head - keep)
            self.floors[stored.epoch] = stored.floor

    def remake(self, backend: int) -> None:
        """Dropped and made again: a new epoch from position 0."""
        stored = self.backends.get(backend)
        if stored is not None:
            self.backends[backend] = StoredBackend(
                backend, self._new_epoch(), sequence=self._step()
            )
            for frontend in self.frontends.values():
                if frontend.backend == backend:
                    frontend.marker = 0
                    self.begins[frontend.id, self.backends[backend].epoch] = 0

    def replace_store(self) -> None:
        """It is lost, and another one begins empty. Nobody is registered."""
        self.stores += 1
        self.sequence = 0
        self.log = ModelLog(self.log.filters)
        for table in (self.backends, self.frontends, self.detachments, self.served):
            table.clear()
        self.registered.clear()

    def brokers_of(self, backend: int) -> set[str]:
        return {f.broker for f in self.frontends.values() if f.backend == backend}

    # -- what brokers ask ---------------------------------------------------------------------

    def register(self, broker: str) -> str:
        self.registered.add(broker)
        return self.store_id

    def known(self, broker: str) -> str:
        if broker not in self.registered:
            raise NotFound(f"no broker is called {broker!r}", field="broker")
        return broker

    def known_for_log(self, broker: str) -> ModelLog:
        """The log of a broker's own store: answers of others could not be told from it."""
        if broker not in self.registered:
            raise Unavailable("this is another store")
        return self.log

    def subscribe(self, subscriber: str, broker: str, backend: int) -> Subscription:
        if backend not in self.backends:
            self.backends[backend] = StoredBackend(
                backend, self._new_epoch(), sequence=self._step()
            )
        for frontend in self.frontends.values():
            if (frontend.subscriber, frontend.backend) == (subscriber, backend):
                return self._subscription(frontend)  # where it is: the call may be a late one
        self.subscriptions += 1
        b = self.backends[backend]
        begin = self.log.head if backend in self.log.filters else b.head
        frontend = StoredFrontend(
            self.subscriptions, subscriber, backend, broker, begin, self._step()
        )
        self.frontends[frontend.id] = frontend
        self.begins[frontend.id, b.epoch] = begin
        return self._subscription(frontend)

    def unsubscribe(self, subscription: int) -> None:
        frontend = self.frontends.pop(subscription, None)
        if frontend is None:
            return
        self.detachments[frontend.broker, subscription] = self._step()
        if not any(f.backend == frontend.backend for f in self.frontends.values()):
            del self.backends[frontend.backend]  # the id will be used again, with another epoch

    def attach(
        self, subscriber: str, broker: str, connection: int | None = None
    ) -> list[Subscription]:
        """For a new connection, or for one that finds something of its subscriber elsewhere."""
        self.known(broker)
        mine = [f for f in self.frontends.values() if f.subscriber == subscriber]
        for frontend in mine:
            self._move(frontend, broker)
        self.served.pop(subscriber, None)
        if connection is not None:
            self.served[subscriber] = connection
        return [self._subscription(frontend) for frontend in mine]

    def move(self, subscription: int, broker: str) -> None:
        """By a statement, wherever its subscriber is connected."""
        frontend = self.frontends[subscription]
        if frontend.broker != broker:
            self.served.pop(frontend.subscriber, None)
        self._move(frontend, broker)

    def _move(self, frontend: StoredFrontend, broker: str) -> None:
        if frontend.broker != broker:
            self.detachments[frontend.broker, frontend.id] = self._step()
            self.detachments.pop((broker, frontend.id), None)
            frontend.broker, frontend.sequence = broker, self.sequence

    def _subscription(self, frontend: StoredFrontend) -> Subscription:
        b = self.backends[frontend.backend]
        backend = BackendSubscription(
            b.id,
            "channel",
            {"key": b.id},
            b.epoch,
            b.head,
            b.floor,
            attachments=self.attachments,
            keys=self.keys,
        )
        if b.id in self.log.filters:
            backend = BackendSubscription(
                b.id,
                FILTERED + self.log.dataset,
                {"key": b.id},
                b.epoch,
                self.log.head,
                self.log.floor,
                msgspec.to_builtins(self.log.filters[b.id]),
            )
        return Subscription(
            frontend.id, frontend.subscriber, frontend.broker, backend, frontend.marker
        )

    def load(self, broker: str, after: int) -> Page:
        self.known(broker)
        here = sorted(f.id for f in self.frontends.values() if f.broker == broker and f.id > after)
        page = [self._subscription(self.frontends[n]) for n in here[:SUBSCRIPTIONS_PER_CALL]]
        return Page(self.sequence, page, page[-1].id if len(here) > len(page) else None)

    def news(self, broker: str, since: int) -> tuple[int, list[NewHead], list[Departure]]:
        self.known(broker)
        here = [f for f in self.frontends.values() if f.broker == broker]
        changed = {
            f.backend
            for f in here
            if f.sequence > since or self.backends[f.backend].sequence > since
        }
        heads = [NewHead(b, self.backends[b].epoch, self.backends[b].head) for b in sorted(changed)]
        gone = [s for (name, s), at in self.detachments.items() if name == broker and at > since]
        return self.sequence, heads, [self.departure(number) for number in gone]

    def departure(self, subscription: int) -> Departure:
        frontend = self.frontends.get(subscription)
        return Departure(subscription, None if frontend is None else frontend.broker)

    def read(self, backend: int, after: int, upto: int, limit: int) -> RangeAnswer:
        b = self.backends.get(backend)
        if b is None:
            raise NotFound(f"no backend subscription {backend}")
        if backend in self.log.filters:
            reached, results = self.log.read(backend, after, upto, limit)
            return RangeAnswer(b.epoch, self.log.floor, self.log.head, results, reached)
        first, last = max(after, b.floor) + 1, min(upto, b.head, max(after, b.floor) + limit)
        results = [self.history[b.epoch, p] for p in range(first, last + 1)]
        return RangeAnswer(b.epoch, b.floor, b.head, results)

    def put_markers(self, markers: Iterable[Marker]) -> set[int]:
        unknown = set()
        for marker in markers:
            frontend = self.frontends.get(marker.subscription)
            if frontend is None:
                unknown.add(marker.subscription)
                continue
            b = self.backends[frontend.backend]
            if b.epoch == marker.epoch:
                head = self.log.head if b.id in self.log.filters else b.head
                assert marker.position <= head
                frontend.marker = max(frontend.marker, marker.position)
        return unknown
