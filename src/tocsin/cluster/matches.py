"""Takes what channels in real-time mode found, from Kafka into the store.

Spark writes each match to the topic of matches; here repeats are dropped, positions given, results
stored and brokers told. A crash between any two steps only makes matches come again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from msgspec import Struct
from prometheus_client import Counter

from tocsin.errors import Unavailable
from tocsin.storage.log.kafka import KafkaAddress, Topics
from tocsin.storage.matches import Match
from tocsin.storage.runs import Committed
from tocsin.storage.store import Store

log = structlog.get_logger()

TAKEN = Counter("tocsin_matches_total", "Matches read from the topic of matches")
MOST_AT_ONCE = 5000
WAIT_S = 0.5
GATHER_S = 0.01  # the first goes at once; what comes soon after is stored together
RETRY_S = 1.0


class _Told(Struct, frozen=True):
    """A message of the topic, as `pipeline.real_time` writes it."""

    c: str
    b: int
    p: int
    v: msgspec.Raw


_decode = msgspec.json.Decoder(_Told).decode


class MatchTaker:
    """One thread: the order of a backend subscription's results is that of the topic."""

    def __init__(
        self,
        address: KafkaAddress,
        store: Store,
        on_commit: Callable[[Committed], None],
    ) -> None:
        self._address = address
        self._store = store
        self._on_commit = on_commit
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="matches", daemon=True)

    def start(self) -> None:
        """The topic is there when this returns: Spark's queries will not make it."""
        Topics(self._address).ensure(self._address.matches_topic)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._take()
            except Exception as error:  # the store or Kafka is away: begin again where it stands
                known = isinstance(error, Unavailable)
                tell = log.warning if known else log.exception
                tell("matches cannot be taken now; they wait", reason=str(error))
                self._stopping.wait(RETRY_S)

    def _take(self) -> None:
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
                found = self._next(consumer)
                began = time.monotonic()
                self._commit(topic, found)
                self._stopping.wait(max(0.0, began + GATHER_S - time.monotonic()))
        finally:
            consumer.close()

    def _next(self, consumer: Consumer) -> list[Message]:
        """What is there: the first as soon as it comes, and all that has come with it."""
        first = consumer.poll(WAIT_S)
        if first is None:
            return []
        found = [first, *consumer.consume(MOST_AT_ONCE, timeout=0)]
        for message in found:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise Unavailable(f"Kafka at {self._address.shown}: {error.str()}")
        return found

    def _commit(self, topic: str, messages: list[Message]) -> None:
        if not messages:
            return
        found = [_match(message) for message in messages]
        last = messages[-1].offset()
        assert last is not None
        started = time.perf_counter()
        for committed in self._store.matches.commit(topic, found, last + 1):
            self._on_commit(committed)
        TAKEN.inc(len(found))
        log.debug("matches taken", count=len(found), seconds=time.perf_counter() - started)


def _match(message: Message) -> Match:
    value: Any = message.value()
    told = _decode(value)
    return Match(told.c, told.b, told.p, bytes(told.v))
