"""Takes what channels in real-time mode found, from Kafka into the store.

Spark writes each match to the topic of matches; here repeats are dropped, positions given, results
stored and brokers told. A crash between any two steps only makes matches come again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from prometheus_client import Counter, Gauge

from tocsin.cluster.worker import Worker
from tocsin.errors import Unavailable
from tocsin.protocol.match import decode_match
from tocsin.service.trouble import Troubles
from tocsin.storage.log.kafka import KafkaAddress, Topics
from tocsin.storage.store.gaps import gap_payload, too_large
from tocsin.storage.store.matches import Match
from tocsin.storage.store.progress import Loss
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store

log = structlog.get_logger()

TAKEN = Counter("tocsin_matches_total", "Matches read from the topic of matches")
STRANGE = Counter("tocsin_strange_matches_total", "What others wrote into the topic of matches")
WAITING = Gauge("tocsin_matches_waiting", "Matches in the topic that are not stored yet")
AGE_SECONDS = Gauge("tocsin_matches_age_seconds", "How long the newest stored match had waited")
NAME = "matches of real-time channels"
MOST_AT_ONCE = 5000
WAIT_S = 0.5
GATHER_S = 0.01  # the first goes at once; what comes soon after is stored together


class MatchConsumer(Worker):
    """One thread: the order of a backend subscription's results is that of the topic."""

    def __init__(
        self,
        address: KafkaAddress,
        store: Store,
        on_commit: Callable[[Committed], None],
        *,
        result_limit_bytes: int,
    ) -> None:
        super().__init__("matches")
        self._address = address
        self._store = store
        self._on_commit = on_commit
        self.troubles = Troubles()
        self._result_limit_bytes = result_limit_bytes
        self.waiting = 0

    def start(self) -> None:
        """The topic is there when this returns: Spark's queries will not make it."""
        Topics(self._address).ensure(self._address.matches_topic)
        super().start()

    def _report(self, error: Exception) -> None:
        if self.troubles.put(NAME, str(error) or type(error).__name__):
            tell = log.warning if isinstance(error, Unavailable) else log.exception
            tell("matches cannot be taken now; they wait", reason=str(error))

    def _work(self) -> None:
        topic = self._address.matches_topic
        consumer = Consumer(
            self._address.client(
                **{
                    "group.id": "tocsin-matches",  # never committed to: the store remembers
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 100,
                    "isolation.level": "read_committed",
                }
            )
        )
        try:
            consumer.assign([TopicPartition(topic, 0, self._store.matches.read_up_to(topic))])
            while not self._stopping.is_set():
                messages = self._next(consumer)
                began = time.monotonic()
                self._commit(topic, messages)
                self.troubles.clear(NAME)
                self._measure(consumer, messages)
                self._stopping.wait(max(0.0, began + GATHER_S - time.monotonic()))
        finally:
            consumer.close()

    def _next(self, consumer: Consumer) -> list[Message]:
        """What is there: the first as soon as it comes, and all that has come with it."""
        first = consumer.poll(WAIT_S)
        if first is None:
            return []
        messages = [first, *consumer.consume(MOST_AT_ONCE, timeout=0)]
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise Unavailable(f"Kafka at {self._address.shown}: {error.str()}")
        return messages

    def _commit(self, topic: str, messages: list[Message]) -> None:
        if not messages:
            return
        matches = [match for message in messages if (match := self._match(message)) is not None]
        last = messages[-1].offset()
        assert last is not None
        started = time.perf_counter()
        for committed in self._store.matches.commit(topic, matches, last + 1):
            self._on_commit(committed)
        TAKEN.inc(len(matches))
        log.debug("matches taken", count=len(matches), seconds=time.perf_counter() - started)

    def _match(self, message: Message) -> Match | None:
        """None: Spark did not write it. Whatever is read here must be storable, or nothing behind
        it would ever be."""
        value: Any = message.value()
        try:
            decoded = decode_match(value or b"")
        except msgspec.DecodeError:
            STRANGE.inc()
            log.warning("somebody else writes into the topic of matches", offset=message.offset())
            return None
        payload = bytes(decoded.payload)
        if len(payload) > self._result_limit_bytes:
            cause = too_large(len(payload), self._result_limit_bytes)
            payload = gap_payload(Loss("", decoded.position, decoded.position + 1, 1, cause))
        return Match(decoded.channel, decoded.backend, decoded.position, payload)

    def _measure(self, consumer: Consumer, taken: list[Message]) -> None:
        """How much is left, and how long what was taken last had waited."""
        (place,) = consumer.position([TopicPartition(self._address.matches_topic, 0)])
        _, end = consumer.get_watermark_offsets(place, cached=True)
        self.waiting = max(0, end - place.offset) if place.offset >= 0 else 0
        WAITING.set(self.waiting)
        kind, written_ms = taken[-1].timestamp() if taken else (0, 0)
        age_s = time.time() - written_ms / 1000 if kind else 0.0
        AGE_SECONDS.set(max(0.0, age_s))
