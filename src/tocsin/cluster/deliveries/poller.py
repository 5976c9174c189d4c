"""Fetches what consumers miss from the store, into their logs.

A consumer that sees a hole in its log says so in the topic of the missing. Requests are read many
at a time, and those that overlap cost one read. Nothing is remembered: a consumer that was not
heard asks again, and drops what it gets twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import Struct
from prometheus_client import Counter

from tocsin.cluster.deliveries.ownership import RequireOwner, believe
from tocsin.cluster.deliveries.to_consumer_logs import logged
from tocsin.cluster.deliveries.topics import LARGEST_MESSAGE_BYTES, ensure_topics
from tocsin.cluster.worker import Worker
from tocsin.errors import TocsinError, Unavailable
from tocsin.model import Result
from tocsin.protocol import consumer_log
from tocsin.protocol.consumer_log import MissingResults
from tocsin.storage.log.kafka import KafkaAddress, unavailable
from tocsin.storage.store.deliveries import Consumer as Known
from tocsin.storage.store.results import Range
from tocsin.storage.store.store import Store

log = structlog.get_logger()

FILLED = Counter("tocsin_filled_total", "Records that consumers missed and got from the store")
SET_ASIDE = Counter(
    "tocsin_missing_set_aside_total", "Requests of consumers that cannot be answered"
)

MOST_REQUESTS = 500
MOST_RESULTS = 1000  # for one request; a consumer asks again for the rest, as …
MOST_BYTES = 64 * 1024 * 1024  # … for what finds no more room beside others' requests
NEAR = 20  # results that nobody asked for are rather read along than jumped over by a further query
WAIT_S = 0.2
LONGEST_WAIT_S = 60.0
_KEPT = {"retention.ms": "3600000", "cleanup.policy": "delete"}


class _Read(Struct):
    """Of one backend subscription: results by their position."""

    floor: int
    results: dict[int, Result] = {}


class Poller(Worker):
    def __init__(
        self,
        address: KafkaAddress,
        store: Store,
        has_logs: Callable[[str], bool],
        require_owner: RequireOwner = believe,
    ) -> None:
        """`has_logs` says whether a channel has consumer logs."""
        super().__init__("poller")
        self._address = address
        self._store = store
        self._has_logs = has_logs
        self._require_owner = require_owner

    def _report(self, error: Exception) -> None:
        """Nothing is lost: consumers ask again."""
        tell = log.warning if isinstance(error, TocsinError) else log.exception
        tell("what consumers miss cannot be fetched now", reason=str(error))

    def _work(self) -> None:
        address = self._address
        ensure_topics(AdminClient(address.client()), address, [address.missing_topic], _KEPT)
        consumer = Consumer(
            address.client(
                **{
                    "group.id": f"{address.prefix}-poller",  # never committed to
                    "enable.auto.commit": False,
                    "fetch.wait.max.ms": 20,
                }
            )
        )
        producer = Producer(
            address.client(
                **{
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "message.max.bytes": LARGEST_MESSAGE_BYTES,
                    "message.timeout.ms": 30_000,
                }
            )
        )
        try:
            consumer.assign([TopicPartition(address.missing_topic, 0, OFFSET_END)])
            while not self._stopping.is_set():
                self._answer_all(self._requests(consumer), producer)
        except KafkaException as error:
            raise unavailable(address, error.args[0]) from None
        finally:
            consumer.close()

    def _requests(self, consumer: Consumer) -> set[MissingResults]:
        requests = set()
        first = consumer.poll(WAIT_S)
        for message in [] if first is None else [first, *consumer.consume(MOST_REQUESTS, 0)]:
            failure = message.error()
            if failure is not None:
                raise unavailable(self._address, failure)
            try:
                requests.add(consumer_log.decode_missing_results(message.value() or b""))
            except msgspec.DecodeError as error:  # any client may write here
                SET_ASIDE.inc()
                log.warning("a request for missing results cannot be read", reason=str(error))
        return requests

    def _answer_all(self, requests: set[MissingResults], producer: Producer) -> None:
        """One that cannot be answered is set aside, and keeps no other from its answer."""
        try:
            self._fill(requests, producer)
        except (TocsinError, KafkaException):
            raise
        except Exception as error:
            if len(requests) > 1:
                for request in requests:
                    self._answer_all({request}, producer)
                return
            SET_ASIDE.inc()
            log.exception("a request for missing results is set aside", reason=str(error))

    def _fill(self, requests: set[MissingResults], producer: Producer) -> None:
        known = {
            consumer.subscription: consumer
            for consumer in self._store.deliveries.consumers_by_id(
                {r.subscription for r in requests}
            )
            if self._has_logs(consumer.channel)
        }
        answerable = [
            request
            for request in requests
            if request.subscription in known
            and self._is_owners(request, known[request.subscription])
        ]
        ranges = merged(
            (known[request.subscription].backend, *_bounds(request)) for request in answerable
        )
        self._store.lease.require()
        by_backend: dict[int, _Read] = {}
        for stored in self._store.results.read_many(ranges, MOST_BYTES):
            if stored is not None:
                read = by_backend.setdefault(stored.backend, _Read(stored.floor))
                read.results.update((result.position, result) for result in stored.results)
        for request in sorted(
            answerable, key=lambda request: (request.subscription, request.after)
        ):
            consumer = known[request.subscription]
            if consumer.backend in by_backend:
                self._answer(consumer, *_bounds(request), by_backend[consumer.backend], producer)
        if answerable and producer.flush(LONGEST_WAIT_S):
            raise Unavailable(f"Kafka at {self._address.shown} does not take what was missed")

    def _is_owners(self, request: MissingResults, consumer: Known) -> bool:
        try:
            self._require_owner(request.token, consumer)
        except TocsinError as error:
            SET_ASIDE.inc()
            log.warning("a request for missing results is refused", reason=str(error))
            return False
        return True

    def _answer(
        self,
        consumer: Known,
        after: int,
        upto: int,
        stored: _Read,
        producer: Producer,
    ) -> None:
        topic = self._address.consumer_topic(consumer.subscription)

        def put(position: int, record: bytes) -> None:
            key = consumer_log.encode_key(position)
            try:
                producer.produce(topic, record, key, partition=0)
            except BufferError:  # as many wait for Kafka as may
                producer.flush(LONGEST_WAIT_S)
                producer.produce(topic, record, key, partition=0)
            producer.poll(0)

        if stored.floor > after:
            put(stored.floor, consumer_log.encode(consumer_log.expired(stored.floor)))
        for position in range(after + 1, upto + 1):
            result = stored.results.get(position)
            if result is not None:
                put(position, logged(position, result.created_at, result.payload))
                FILLED.inc()


def _bounds(request: MissingResults) -> tuple[int, int]:
    return request.after, min(request.upto, request.after + MOST_RESULTS)


def merged(wanted: Iterable[tuple[int, int, int]]) -> list[Range]:
    """(backend, after, upto) → few ranges that cover them all."""
    ranges: list[tuple[int, int, int]] = []
    for backend, after, upto in sorted(wanted):
        if ranges and ranges[-1][0] == backend and after <= ranges[-1][2] + NEAR:
            last = ranges.pop()
            ranges.append((backend, last[1], max(last[2], upto)))
        elif upto > after:
            ranges.append((backend, after, upto))
    return [Range(*bounds, limit=bounds[2] - bounds[1]) for bounds in ranges]
