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
from tocsin.policies.registry import Running
from tocsin.protocol import consumer_log
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.deliveries import Deliverable
from tocsin.storage.store.store import Store

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
        self._delivery: Delivery = channel.delivery
        self._address = address
        self._store = store
        self._topics = Topics(address)
        self._mark_s = mark_s
        self._keep_s = keep_s
        self._clock = clock
        self._policy = parse_admission(self._delivery.admit)
        self._admission = self._policy.admit.start()
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
        kind = self._policy.admit.policy.state
        state = None if kind is None else msgspec.convert(memory, kind)
        self._admission = Running(self._policy.admit, state)
        self._behind.clear()
        self._unmarked = True
        there = self._topics.there(f"{self._address.prefix}.")
        wanted = [
            self._address.consumer_topic(consumer.subscription)
            for consumer in self._store.deliveries.consumers(self._channel)
        ]
        if self._delivery.shared:
            wanted.append(self._address.shared_topic(self._channel))
        self._make([topic for topic in wanted if topic not in there])
        self._sweep()

    def write(self, results: Sequence[Deliverable], out: Transactions) -> dict[str, float]:
        consumers = self._consumers(results)
        admitted = self._decide(results, consumers)
        written = [result for result in results if _publication(result) in admitted]
        places = self._share(written, out) if self._delivery.shared else {}
        for result in results:
            if _publication(result) in admitted:
                record = self._record(result, places.get(_shared(result)))
            else:
                record = b""
            for consumer, marker in consumers.get(result.backend, ()):
                if marker >= result.position:  # it was made before somebody subscribed
                    continue
                if record:
                    self._put(out, consumer, result.position, record)
                    self._behind.pop(consumer, None)
                    LOGGED.labels(self._channel).inc()
                else:
                    _, since = self._behind.get(consumer, (0, self._clock()))
                    self._behind[consumer] = result.position, since
        state = self._admission.state
        return {} if state is None else msgspec.structs.asdict(state)

    def due(self, caught_up: bool) -> bool:
        self._delete_left()
        if self._unmarked and caught_up:
            self._unmarked = False
            for consumer in self._store.deliveries.consumers(self._channel):
                if consumer.head > consumer.marker:
                    self._behind[consumer.subscription] = consumer.head, -self._mark_s
        wait_s = self._soonest_s()
        return wait_s is not None and wait_s <= 0

    def write_due(self, out: Transactions) -> None:
        now = self._clock()
        for consumer, (head, since) in list(self._behind.items()):
            if now - since >= self._mark_s:
                del self._behind[consumer]
                self._put(out, consumer, head, consumer_log.encode(consumer_log.head(head)))

    def next_due_s(self) -> float | None:
        wait_s = self._soonest_s()
        return None if wait_s is None else max(wait_s, 0.01)

    def _soonest_s(self) -> float | None:
        if not self._behind:
            return None
        return min(since for _, since in self._behind.values()) + self._mark_s - self._clock()

    def _consumers(self, results: Sequence[Deliverable]) -> dict[int, list[tuple[int, int]]]:
        """Backend subscription → (consumer, marker) of all who share it."""
        by_backend: dict[int, list[tuple[int, int]]] = {}
        for consumer in self._store.deliveries.consumers(
            self._channel, {result.backend for result in results}
        ):
            by_backend.setdefault(consumer.backend, []).append(
                (consumer.subscription, consumer.marker)
            )
        return by_backend

    def _decide(
        self,
        results: Sequence[Deliverable],
        consumers: dict[int, list[tuple[int, int]]],
    ) -> set[Any]:
        """The publications that are admitted, decided in the order of their records."""
        matched: dict[Any, set[int]] = {}
        for result in results:
            matched.setdefault(_publication(result), set()).update(
                consumer
                for consumer, marker in consumers.get(result.backend, ())
                if marker < result.position
            )
        admitted = set()
        for publication, whom in sorted(matched.items(), key=lambda item: item[0]):
            if whom:
                yes = self._admission.call(len(whom))
                PUBLICATIONS.labels(self._channel, "yes" if yes else "no").inc()
                if yes:
                    admitted.add(publication)
        return admitted

    def _share(self, written: Sequence[Deliverable], out: Transactions) -> dict[Any, int]:
        """Each value once, into the shared log; where it is there."""
        topic = self._address.shared_topic(self._channel)
        places: dict[Any, int] = {}

        def on_delivery(value: Any) -> Callable[[Any, Any], None]:
            def place(error: Any, message: Any) -> None:
                if error is None:
                    places[value] = message.offset()

            return place

        values = {_shared(result): result for result in written if fits(result.payload)}
        for value, result in values.items():
            key = consumer_log.encode_key(result.record or 0)
            out.produce(topic, key, result.payload, on_delivery=on_delivery(value))
        out.flush()
        if len(places) < len(values):
            raise Unavailable(f"Kafka at {self._address.shown} did not take shared values")
        return places

    def _record(self, result: Deliverable, place: int | None) -> bytes:
        if place is None:
            return logged(result.position, result.created_at, result.payload)
        record = consumer_log.reference(result.position, result.created_at, self._channel, place)
        return consumer_log.encode(record)

    def _put(self, out: Transactions, consumer: int, position: int, record: bytes) -> None:
        key = consumer_log.encode_key(position)
        out.produce(self._address.consumer_topic(consumer), key, record)

    def _make(self, topics: list[str]) -> None:
        keep_bytes = self._delivery.keep_bytes
        self._topics.make_logs(topics, keep_bytes=keep_bytes, keep_s=self._keep_s)

    def _sweep(self) -> None:
        """Delete the logs of subscriptions that ended while nobody delivered."""
        start = self._address.consumer_topics
        logs = {int(topic[len(start) :]): topic for topic in self._topics.there(start)}
        known = {consumer.subscription for consumer in self._store.deliveries.consumers_by_id(logs)}
        self._topics.delete(
            [topic for subscription, topic in logs.items() if subscription not in known]
        )

    def _delete_left(self) -> None:
        left = []
        while not self._leaving.empty():
            consumer = self._leaving.get()
            self._behind.pop(consumer, None)
            left.append(self._address.consumer_topic(consumer))
        self._topics.delete(left)


def _publication(result: Deliverable) -> tuple[float, int, int]:
    """What stems from one record, as far as it was committed together. A result of no one record
    (of a group, say) is a publication of its own."""
    if result.record is None:
        return result.created_at, -1, result.number
    return result.created_at, result.record, 0


def _shared(result: Deliverable) -> tuple[tuple[float, int, int], bytes]:
    """Results of one publication that say the same are one value."""
    return _publication(result), result.payload


def fits(payload: bytes) -> bool:
    return len(payload) <= LARGEST_VALUE_BYTES


def logged(position: int, at: float, payload: bytes) -> bytes:
    """A result as a consumer log has it; of one that Kafka would not take, its size."""
    if fits(payload):
        return consumer_log.encode(consumer_log.result(position, at, payload))
    log.error("a result is too large for a consumer log", position=position, bytes=len(payload))
    return consumer_log.encode(consumer_log.too_large(position, at, len(payload)))
