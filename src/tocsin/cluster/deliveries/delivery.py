"""One channel's delivery: from the store's results to Kafka, in order, once each.

A batch of results and the delivery's progress are one Kafka transaction. Nothing is kept here that
Kafka and the store do not know: after any failure it opens again and goes on from its progress.

Opening fences whoever delivered before, and the lease is confirmed by the store after that: so who
was replaced can fence for a moment, and deliver nothing. Who has the lease then opens again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import structlog
from prometheus_client import Counter

from tocsin.cluster.deliveries.transactions import Fenced, Sizes, Transactions
from tocsin.cluster.worker import Worker
from tocsin.errors import TocsinError
from tocsin.model import Channel
from tocsin.protocol.consumer_log import Progress
from tocsin.service.trouble import Troubles
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.deliveries import Deliverable
from tocsin.storage.store.store import Store

log = structlog.get_logger()

DELIVERED = Counter("tocsin_delivered_total", "Results delivered to Kafka", ["channel"])
EXPIRED = Counter(
    "tocsin_expired_undelivered_total", "Results that expired before delivery", ["channel"]
)

MOST_AT_ONCE = 1000
POLL_S = 0.5


class Way(Protocol):
    """How results are written. Called by one thread."""

    def opened(self, memory: dict[str, float]) -> None:
        """Begin (again), with what it remembered at the last commit."""

    def write(self, results: Sequence[Deliverable], out: Transactions) -> dict[str, float]:
        """Write within the open transaction; returns what to remember."""

    def due(self, caught_up: bool) -> bool:
        """Is there something to write besides results?"""

    def write_due(self, out: Transactions) -> None:
        """Write that, within the open transaction."""

    def next_due_s(self) -> float | None:
        """How long until there may be something; None: not by the clock."""


class Delivery(Worker):
    """A thread. `describe` may be called from any."""

    def __init__(
        self,
        channel: Channel,
        address: KafkaAddress,
        store: Store,
        way: Way,
        troubles: Troubles,
    ) -> None:
        super().__init__(f"delivery-{channel.name}")
        self.channel = channel
        self._troubles = troubles
        self._address = address
        self._store = store
        self._way = way
        self._wake = threading.Event()
        self._number = 0
        self._expired = 0
        self._next: dict[int, int] = {}  # backend → the position to come
        self._sizes = Sizes()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        super().stop()

    def wake(self) -> None:
        self._wake.set()

    def describe(self) -> list[tuple[str, str]]:
        rows = [("delivered up to", f"{self._number} of {self._store.deliveries.last_number()}")]
        if self._expired:
            rows.append(("expired undelivered", str(self._expired)))
        return rows

    def _work(self) -> None:
        name, lease = self.channel.name, self._store.lease
        lease.confirm()  # who was replaced must not fence the one that replaced it
        out = Transactions(self._address, name, f"{name}@{self.channel.created_at!r}", self._sizes)
        try:
            progress = out.open()
            lease.confirm()
            self._way.opened(progress.memory)
            self._deliver(out, progress)
        except Fenced as error:
            if lease.number:
                lease.confirm()
                log.warning("a cluster that was replaced had a delivery", channel=name)
                return  # and begins again
            self._troubles.put(name, str(error))
            log.error("a delivery ended", channel=name, reason=str(error))
            self._stopping.set()
        finally:
            out.close()

    def _report(self, error: Exception) -> None:
        self._troubles.put(self.channel.name, str(error) or type(error).__name__)
        tell = log.warning if isinstance(error, TocsinError) else log.exception
        tell("results wait for delivery", channel=self.channel.name, reason=str(error))

    def _deliver(self, out: Transactions, progress: Progress) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            batch = self._store.deliveries.read(self.channel.name, progress.number, MOST_AT_ONCE)
            progress = Progress(batch.upto, progress.memory)
            due = self._way.due(batch.all_)
            if batch.results or due:
                out.begin()
                if batch.results:
                    memory = self._way.write(batch.results, out)
                    progress = Progress(batch.upto, memory)
                if due:
                    self._way.write_due(out)
                self._store.lease.require()
                out.commit(progress)
                DELIVERED.labels(self.channel.name).inc(len(batch.results))
                self._tell_of_expired(batch.results)
            self._number = progress.number
            self._troubles.clear(self.channel.name)
            if batch.all_:
                self._wake.wait(min(POLL_S, self._way.next_due_s() or POLL_S))

    def _tell_of_expired(self, results: Sequence[Deliverable]) -> None:
        """Positions have no holes, so what is missing was dropped by retention."""
        missing = 0
        for result in results:
            missing += result.position - self._next.get(result.backend, result.position)
            self._next[result.backend] = result.position + 1
        if missing > 0:
            self._expired += missing
            EXPIRED.labels(self.channel.name).inc(missing)
            log.error("results expired undelivered", channel=self.channel.name, count=missing)
