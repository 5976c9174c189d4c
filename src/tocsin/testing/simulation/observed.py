"""What the cluster is seen to hold, read from the store's file by other code than its own, and what
brokers ask of it.

After every commit: positions grow by one, nothing that was stored changes or goes but by retention,
no record is answered twice, no marker and no channel moves back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tocsin.broker.machine.effects import Marker
from tocsin.broker.machine.events import NewHead, RangeAnswer
from tocsin.errors import Unavailable
from tocsin.model import Departure, Result, Subscription
from tocsin.storage.store.subscriptions import Page
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.cluster_process import ClusterProcess
from tocsin.testing.simulation.model_cluster import (
    SUBSCRIPTIONS_PER_CALL,
    ModelCluster,
    StoredBackend,
    StoredFrontend,
)

_RESULTS = "SELECT number, id, backend, position, record, created_at, payload FROM results WHERE"


@dataclass
class ObservedCluster(ModelCluster):
    process: ClusterProcess = field(kw_only=True)
    interests: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)  # by epoch
    since: dict[str, int] = field(default_factory=dict)  # by epoch: from where records count
    results_seen: int = 0
    connections: int = 0
    _number: int = 0  # of the newest result that was seen
    _outlived: set[str] = field(default_factory=set)  # epochs of before the store was restored
    _highest: int = 0  # number of a subscription that was ever given out
    _numbers: set[int] | None = None  # of those that were seen in this store
    _file: sqlite3.Connection | None = None
    _store: str = ""
    _version: int = 0
    _heads: dict[str, int] = field(default_factory=dict)
    _answered: dict[tuple[str, int], int] = field(default_factory=dict)  # (epoch, record) -> where
    _ids: set[str] = field(default_factory=set)
    _progress: dict[str, dict[str, int]] = field(default_factory=dict)
    _markers: dict[tuple[int, str], int] = field(default_factory=dict)

    # -- what the store holds ---------------------------------------------------------------------

    @property
    def store_id(self) -> str:
        return self._store

    def look(self) -> None:
        """As of the last commit."""
        if self._file is None:
            if not self.process.alive:
                return
            self._file = sqlite3.connect(self.process.directory / "store.db")
            meta = dict(self._file.execute("SELECT name, value FROM meta"))
            number = meta.get("incarnation")
            self._store = meta["id"] if number is None else f"{meta['id']}.{number}"
            self._look_again(self._file)
        ((version,),) = self._file.execute("PRAGMA data_version")
        if version == self._version:
            return
        self._version = version
        self._look_at_subscriptions(self._file)
        for row in self._file.execute(f"{_RESULTS} number > ? ORDER BY number", (self._number,)):
            self._new_result(*row)
        for epoch, head in ((b.epoch, b.head) for b in self.backends.values()):
            seen = self._heads.get(epoch, 0)
            promise(seen == head, f"epoch {epoch}: the head is {head}, the last result {seen}")
        self._look_at_progress(self._file)

    def lost_sight(self) -> None:
        """The process died."""
        if self._file is not None:
            self._file.close()
            self._file, self._version = None, 0

    def restored(self) -> None:
        """The store is as it was once: all that it gave out since must not be given out again."""
        self._outlived = set(self.epoch_order)
        self._numbers = None
        self.backends, self.frontends = {}, {}
        self._number = 0
        for table in (self._ids, self._progress, self.served):
            table.clear()

    def _look_again(self, file: sqlite3.Connection) -> None:
        """After a crash: whatever was seen is there, unless somebody dropped it."""
        epochs = dict(file.execute("SELECT id, epoch FROM backend_subscriptions"))
        floors = dict(file.execute("SELECT epoch, floor FROM backend_subscriptions"))
        there = {
            (epochs[backend], position): payload
            for _, _, backend, position, _, _, payload in file.execute(f"{_RESULTS} 1")
        }
        for (epoch, position), result in self.history.items():
            if epoch in floors and position > floors[epoch]:
                kept = there.get((epoch, position))
                promise(kept == result.payload, f"{epoch} {position}: {result} became {kept!r}")
        for epoch in {backend.epoch for backend in self.backends.values()}:
            promise(epoch in floors, f"the backend subscription of epoch {epoch} was lost")

    def _look_at_subscriptions(self, file: sqlite3.Connection) -> None:
        self.registered = {name for (name,) in file.execute("SELECT name FROM brokers")}
        self.backends = {}
        for number, channel, arguments, epoch, head, floor, sequence, since in file.execute(
            "SELECT id, channel, arguments, epoch, head, floor, sequence, since"
            " FROM backend_subscriptions"
        ):
            promise(epoch not in self._outlived, f"epoch {epoch} goes on in a restored store")
            self.since[epoch] = since
            self.backends[number] = StoredBackend(number, epoch, head, floor, sequence)
            if epoch not in self.epoch_order:
                self.epoch_order[epoch] = len(self.epoch_order) + 1
                self.logs[epoch] = self.log
                self.interests[epoch] = channel, msgspec.json.decode(arguments)
            self.floors[epoch] = floor
        self.frontends = {}
        for row in file.execute(
            "SELECT id, subscriber, backend, broker, marker, sequence FROM frontend_subscriptions"
        ):
            frontend = StoredFrontend(*row)
            self.frontends[frontend.id] = frontend
            key = frontend.id, self.backends[frontend.backend].epoch
            before = self._markers.get(key)
            if before is None:
                self.begins[key] = frontend.marker
            else:
                promise(frontend.marker >= before, f"marker {key} went back from {before}")
            self._markers[key] = frontend.marker
        self._check_numbers()

    def _check_numbers(self) -> None:
        """No subscription gets a number that another has had."""
        known = set(self.frontends) if self._numbers is None else self._numbers
        again = [n for n in self.frontends if n not in known and n <= self._highest]
        promise(not again, f"numbers {again} were given out before, up to {self._highest}")
        self._numbers = known | set(self.frontends)
        self._highest = max([self._highest, *self.frontends])

    def _new_result(
        self,
        number: int,
        id_: str,
        backend: int,
        position: int,
        record: int | None,
        at: float,
        payload: bytes,
    ) -> None:
        self._number = number
        self.results_seen += 1
        epoch = self.backends[backend].epoch
        head = self._heads.get(epoch, 0)
        promise(position == head + 1, f"{epoch}: position {position} came after {head}")
        promise(id_ not in self._ids, f"{epoch} {position}: there is a result {id_} already")
        self._ids.add(id_)
        self._heads[epoch] = position
        self.history[epoch, position] = Result(backend, position, at, payload)
        if record is not None:
            where = self._answered.setdefault((epoch, record), position)
            promise(where == position, f"{epoch}: record {record} answers at {where}, {position}")

    def _look_at_progress(self, file: sqlite3.Connection) -> None:
        for channel, text in file.execute("SELECT channel, ends FROM progress"):
            ends = msgspec.json.decode(text, type=dict[str, int])
            before = self._progress.get(channel, {})
            back = {name: end for name, end in ends.items() if end < before.get(name, 0)}
            promise(not back, f"channel {channel} moved back from {before} to {ends}")
            self._progress[channel] = ends

    def progress(self, channel: str) -> dict[str, int]:
        return self._progress.get(channel, {})

    # -- what brokers ask -------------------------------------------------------------------------

    def register(self, broker: str) -> str:
        return self.process.know_broker(broker)

    def subscribe(self, subscriber: str, broker: str, backend: int) -> Subscription:
        """`backend`: the number of what is asked for."""
        return self.process.subscribe(subscriber, backend, broker)

    def unsubscribe(self, subscription: int) -> None:
        def end(life: Any) -> None:
            life.store.subscriptions.unsubscribe(subscription)
            self.process.wake(life)

        self.process.enter(end)

    def attach(
        self, subscriber: str, broker: str, connection: int | None = None
    ) -> list[Subscription]:
        def move(life: Any) -> list[Subscription]:
            attached: list[Subscription] = life.store.subscriptions.attach(subscriber, broker)
            self.served.pop(subscriber, None)
            if connection is not None:
                self.served[subscriber] = connection
            self.process.wake(life)
            return attached

        return self.process.enter(move)

    def move(self, subscription: int, broker: str) -> None:
        def move(life: Any) -> None:
            before = self.frontends[subscription]
            life.store.subscriptions.move(subscription, broker)
            if before.broker != broker:
                self.served.pop(before.subscriber, None)
            self.process.wake(life)

        self.process.enter(move)

    def load(self, broker: str, after: int) -> Page:
        bounds = after, SUBSCRIPTIONS_PER_CALL, 1 << 20
        return self.process.enter(
            lambda life: life.store.subscriptions.page_of_broker(broker, *bounds)
        )

    def news(self, broker: str, since: int) -> tuple[int, list[NewHead], list[Departure]]:
        sequence, heads, gone = self.process.enter(
            lambda life: life.store.subscriptions.news(broker, since)
        )
        return sequence, [NewHead(head.backend, head.epoch, head.head) for head in heads], gone

    def read(self, backend: int, after: int, upto: int, limit: int) -> RangeAnswer:
        stored = self.process.enter(
            lambda life: life.store.results.read(backend, after, upto, limit)
        )
        return RangeAnswer(stored.epoch, stored.floor, stored.head, stored.results)

    def put_markers(self, markers: Iterable[Marker]) -> set[int]:
        wanted = [(marker.subscription, marker.epoch, marker.position) for marker in markers]
        return set(self.process.enter(lambda life: life.store.subscriptions.put_markers(wanted)))

    def known_for_log(self, broker: str) -> Any:
        raise Unavailable("no dataset is routed here")
