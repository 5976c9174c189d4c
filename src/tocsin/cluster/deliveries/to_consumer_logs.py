"""DELIVER TO CONSUMER LOGS: each consumer (frontend subscription) has a Kafka topic of its own.

The admission policy looks at each publication: how many consumers is it for? What it admits is
written into their logs at once; the rest stays in the store, where a consumer that misses it has it
fetched from. A log that is behind for a while gets a head mark, so that its consumer can miss it.

With `shared`, an admitted value is written once, into the channel's shared log, and consumer logs
refer to it.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from prometheus_client import Counter

from tocsin.cluster.deliveries.topics import LARGEST_MESSAGE_BYTES, Topics
from tocsin.cluster.deliveries.transactions import Transactions
from tocsin.errors import Unavailable
from tocsin.model import Channel, Delivery
from tocsin.policies import parse_admission
from tocsin.policies.admission import Memory
from tocsin.storage.deliveries import Deliverable
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store import Store

log = structlog.get_logger()

PUBLICATIONS = Counter(
    "tocsin_publications_total", "Publications that consumers matched", ["channel", "admitted"]
)
LARGEST_VALUE_BYTES = LARGEST_MESSAGE_BYTES - 4096
LOGGED = Counter("tocsin_logged_total", "Records written into consumer logs", ["channel"])


class ConsumerLogs:
    def __init__(
        self,
        channel: Channel,
        address: KafkaAddress,
        store: Store,
        *,
        mark_s: float,
        keep_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert channel.delivery is not None
        self._channel = channel.name
        self._asked: Delivery = channel.delivery
        self._address = address
        self._store = store
        self._topics = Topics(address)
        self._mark_s = mark_s
        self._keep_s = keep_s
        self._clock = clock
        self._policy = parse_admission(self._asked.admit)
        self._memory = Memory()
        self._behind: dict[int, tuple[int, float]] = {}  # consumer → head, since when
        self._unmarked = True  # nobody knows which logs were behind when the last delivery ended
        self._leaving: queue.SimpleQueue[int] = queue.SimpleQueue()

    # Called on any thread

    def make_log(self, consumer: int) -> None:
        self._make([self._address.consumer_topic(consumer)])

    def leave(self, consumer: int) -> None:
        """Its log is deleted when nothing is being written to it."""
        self._leaving.put(consumer)

    def end(self) -> None:
        """The channel is gone, and its consumers before it. The delivery has stopped."""
        self._delete_left()
        self._topics.delete([self._address.shared_topic(self._channel)])

    # Called by the delivery

    def opened(self, memory: dict[str, float]) -> None:
        self._memory = msgspec.convert(memory, Memory)
        self._behind.clear()
        self._unmarked = True
        there = self._topics.there(f"{self._address.prefix}.")
        wanted = [
            self._address.consumer_topic(one.subscription)
            for one in self._store.deliveries.consumers(self._channel)
        ]
        if self._asked.shared:
            wanted.append(self._address.shared_topic(self._channel))
        self._make([one for one in wanted if one not in there])
        self._sweep()

    def write(self, results: Sequence[Deliverable], out: Transactions) -> dict[str, float]:
        consumers = self._consumers(results)
        admitted = self._decide(results, consumers)
        written = [one for one in results if _publication(one) in admitted]
        places = self._share(written, out) if self._asked.shared else {}
        for one in results:
            if _publication(one) in admitted:
                record = self._record(one, places.get(_shared(one)))
            else:
                record = b""
            for consumer, marker in consumers.get(one.backend, ()):
                if marker >= one.position:  # it was made before somebody subscribed
                    continue
                if record:
                    self._put(out, consumer, one.position, record)
                    self._behind.pop(consumer, None)
                    LOGGED.labels(self._channel).inc()
                else:
                    _, since = self._behind.get(consumer, (0, self._clock()))
                    self._behind[consumer] = one.position, since
        return msgspec.structs.asdict(self._memory)

    def due(self, caught_up: bool) -> bool:
        self._delete_left()
        if self._unmarked and caught_up:
            self._unmarked = False
            for one in self._store.deliveries.consumers(self._channel):
                if one.head > one.marker:
                    self._behind[one.subscription] = one.head, -self._mark_s
        wait_s = self._soonest_s()
        return wait_s is not None and wait_s <= 0

    def write_due(self, out: Transactions) -> None:
        now = self._clock()
        for consumer, (head, since) in list(self._behind.items()):
            if now - since >= self._mark_s:
                del self._behind[consumer]
                self._put(out, consumer, head, b'{"position":%d}' % head)

    def next_due_s(self) -> float | None:
        wait_s = self._soonest_s()
        return None if wait_s is None else max(wait_s, 0.01)

    def _soonest_s(self) -> float | None:
        if not self._behind:
            return None
        return min(since for _, since in self._behind.values()) + self._mark_s - self._clock()

    def _consumers(self, results: Sequence[Deliverable]) -> dict[int, list[tuple[int, int]]]:
        """Backend subscription → (consumer, marker) of all who share it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for one in self._store.deliveries.consumers(
            self._channel, {result.backend for result in results}
        ):
            found.setdefault(one.backend, []).append((one.subscription, one.marker))
        return found

    def _decide(
        self,
        results: Sequence[Deliverable],
        consumers: dict[int, list[tuple[int, int]]],
    ) -> set[Any]:
        """The publications that are admitted, decided in the order of their records."""
        matched: dict[Any, set[int]] = {}
        for one in results:
            matched.setdefault(_publication(one), set()).update(
                consumer
                for consumer, marker in consumers.get(one.backend, ())
                if marker < one.position
            )
        admitted = set()
        for publication, whom in sorted(matched.items(), key=lambda item: item[0]):
            if whom:
                yes = self._policy.admit(self._memory, len(whom), *self._policy.parameters)
                PUBLICATIONS.labels(self._channel, "yes" if yes else "no").inc()
                if yes:
                    admitted.add(publication)
        return admitted

    def _share(self, written: Sequence[Deliverable], out: Transactions) -> dict[Any, int]:
        """Each value once, into the shared log; where it is there."""
        topic = self._address.shared_topic(self._channel)
        places: dict[Any, int] = {}

        def told(value: Any) -> Callable[[Any, Any], None]:
            def place(error: Any, message: Any) -> None:
                if error is None:
                    places[value] = message.offset()

            return place

        values = {_shared(one): one for one in written if fits(one.payload)}
        for value, one in values.items():
            out.produce(topic, b"%d" % (one.record or 0), one.payload, told=told(value))
        out.flush()
        if len(places) < len(values):
            raise Unavailable(f"Kafka at {self._address.shown} did not take shared values")
        return places

    def _record(self, one: Deliverable, place: int | None) -> bytes:
        if place is None:
            return logged(one.position, one.created_at, one.payload)
        told = {"position": one.position, "at": one.created_at}
        return msgspec.json.encode(told | {"channel": self._channel, "shared": place})

    def _put(self, out: Transactions, consumer: int, position: int, record: bytes) -> None:
        out.produce(self._address.consumer_topic(consumer), b"%d" % position, record)

    def _make(self, topics: list[str]) -> None:
        keep_bytes = self._asked.keep_bytes
        self._topics.make_logs(topics, keep_bytes=keep_bytes, keep_s=self._keep_s)

    def _sweep(self) -> None:
        """Delete the logs of subscriptions that ended while nobody delivered."""
        start = self._address.consumer_topics
        logs = {int(one[len(start) :]): one for one in self._topics.there(start)}
        known = {one.subscription for one in self._store.deliveries.consumers_by_id(logs)}
        self._topics.delete([topic for one, topic in logs.items() if one not in known])

    def _delete_left(self) -> None:
        left = []
        while not self._leaving.empty():
            consumer = self._leaving.get()
            self._behind.pop(consumer, None)
            left.append(self._address.consumer_topic(consumer))
        self._topics.delete(left)


def _publication(one: Deliverable) -> tuple[float, int, int]:
    """What stems from one record, as far as it was committed together. A result of no one record
    (of a group, say) is a publication of its own."""
    if one.record is None:
        return one.created_at, -1, one.number
    return one.created_at, one.record, 0


def _shared(one: Deliverable) -> tuple[tuple[float, int, int], bytes]:
    """Results of one publication that say the same are one value."""
    return _publication(one), one.payload


def fits(payload: bytes) -> bool:
    return len(payload) <= LARGEST_VALUE_BYTES


def logged(position: int, at: float, payload: bytes) -> bytes:
    """A result as a consumer log has it; of one that Kafka would not take, its size."""
    told: dict[str, Any] = {"position": position, "at": at}
    if fits(payload):
        return msgspec.json.encode(told | {"value": msgspec.Raw(payload)})
    log.error("a result is too large for a consumer log", position=position, bytes=len(payload))
    return msgspec.json.encode(told | {"value": None, "too_large": len(payload)})
