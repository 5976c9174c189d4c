"""Takes what channels in real-time mode found, from Kafka into the store.

Spark writes each match to the topic of matches; here repeats are dropped, positions given, results
stored and brokers told. A crash between any two steps only makes matches come again. They are
stored over a connection of their own (`storage.store.shared_writes`), beside whatever else the
cluster writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from prometheus_client import Counter, Gauge

from tocsin.cluster.match_topic import OUT_OF_RANGE, MatchTopic, begin, hole
from tocsin.cluster.worker import Worker
from tocsin.errors import NotLeading, TocsinError, Unavailable
from tocsin.protocol.match import decode_match
from tocsin.service.trouble import Troubles
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.gaps import gap_payload, too_large
from tocsin.storage.store.match_progress import Moved, Place
from tocsin.storage.store.matches import Match, Matches
from tocsin.storage.store.progress import Loss
from tocsin.storage.store.runs import Committed

log = structlog.get_logger()

TAKEN = Counter("tocsin_matches_total", "Matches read from the topic of matches")
STRANGE = Counter("tocsin_strange_matches_total", "What others wrote into the topic of matches")
SET_ASIDE = Counter("tocsin_matches_set_aside_total", "Matches that the store cannot take")
WAITING = Gauge("tocsin_matches_waiting", "Matches in the topic that are not stored yet")
AGE_SECONDS = Gauge("tocsin_matches_age_seconds", "How long the newest stored match had waited")
NAME = "matches of real-time channels"
MOST_AT_ONCE = 5000
WAIT_S = 0.5
GATHER_S = 0.01  # the first goes at once; what comes soon after is stored together
MOST_GATHER_S = 0.05  # the more a commit takes, the more should be in the next one


class MatchConsumer(Worker):
    """One thread: the order of a backend subscription's results is that of the topic."""

    def __init__(
        self,
        address: KafkaAddress,
        matches: Matches,
        on_commit: Callable[[Committed], None],
        *,
        result_limit_bytes: int,
        leads: bool = True,
    ) -> None:
        """`leads`: it belongs to the cluster that has the store, and ends with it."""
        super().__init__("matches")
        self._address = address
        self._store = matches
        self._leads = leads
        self._on_commit = on_commit
        self.troubles = Troubles()
        self._result_limit_bytes = result_limit_bytes
        self.waiting = 0
        self._place = Place(address.matches_topic, 0, 0, 0)
        self._generation = 0

    def start(self) -> None:
        """Where it leads, the topic is there when this returns: Spark's queries will not make
        it."""
        if self._leads:
            self._generation = begin(self._address, self._store).generation
        super().start()

    def _report(self, error: Exception) -> None:
        if self.troubles.put(NAME, str(error) or type(error).__name__):
            known = isinstance(error, TocsinError | Moved)
            tell = log.warning if known else log.exception
            tell("matches cannot be taken now; they wait", reason=str(error))

    def _work(self) -> None:
        self._place = self._begin()
        consumer = Consumer(
            self._address.client(
                **{
                    "group.id": f"{self._address.prefix}.writers",  # the store remembers offsets
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",  # what is gone must not be passed over
                    "fetch.wait.max.ms": 100,
                    "isolation.level": "read_committed",
                }
            )
        )
        tidying = MatchTopic(self._address, consumer)
        try:
            consumer.assign([TopicPartition(self._place.topic, 0, self._place.up_to)])
            while not self._stopping.is_set():
                messages = self._next(consumer)
                began = time.monotonic()
                self._commit(messages)
                self.troubles.clear(NAME)
                self._measure(consumer, messages)
                tidying.tidy(self._place, time.time())
                if len(messages) <= MOST_AT_ONCE:
                    self._stopping.wait(_rest_s(time.monotonic() - began))
        finally:
            consumer.close()

    def _begin(self) -> Place:
        """Where to go on. Another generation is another leader's."""
        place = self._store.places(self._address.matches_topic).get(0)
        if place is None:
            raise Unavailable("no cluster has begun to take matches yet", hint="start it")
        if self._leads and place.generation != self._generation:
            raise NotLeading(
                "another cluster takes the matches now",
                hint="it has taken the store over: ask that one",
            )
        return place

    def _next(self, consumer: Consumer) -> list[Message]:
        """What is there: the first as soon as it comes, and all that has come with it."""
        first = consumer.poll(WAIT_S)
        if first is None:
            return []
        messages = [first, *consumer.consume(MOST_AT_ONCE, timeout=0)]
        for message in messages:
            error = message.error()
            if error is not None and error.code() in OUT_OF_RANGE:
                raise hole(consumer, self._place)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise Unavailable(f"Kafka at {self._address.shown}: {error.str()}")
        return messages

    def _commit(self, messages: list[Message]) -> None:
        if not messages:
            return
        matches = [(_end(message), self._match(message)) for message in messages]
        started = time.perf_counter()
        self._store_matches(matches)
        log.debug("matches taken", count=len(matches), seconds=time.perf_counter() - started)

    def _store_matches(self, read: list[tuple[int, Match | None]]) -> None:
        """Matches, and where the topic goes on behind each. What the store refuses for another
        reason than that it is away is found by halving, and holds up nothing behind it."""
        matches = [match for _, match in read if match is not None]
        end, _ = read[-1]
        try:
            self._put(matches, end)
        except (TocsinError, Moved):
            raise
        except Exception as error:
            if len(read) == 1:
                self._set_aside(matches, end, error)
                return
            middle = len(read) // 2
            self._store_matches(read[:middle])
            self._store_matches(read[middle:])

    def _set_aside(self, matches: list[Match], end: int, error: Exception) -> None:
        """A gap says that the match is missing, if the store takes that; one that does not even
        take that nothing came is the one that is broken, and raises."""
        cause = str(error) or type(error).__name__
        try:
            self._put([match._replace(payload=_gap(match, cause)) for match in matches], end)
        except (TocsinError, Moved):
            raise
        except Exception:
            self._put([], end)
        SET_ASIDE.inc(len(matches))
        log.error("the store cannot take a match: set aside", offset=end - 1, reason=cause)

    def _put(self, matches: list[Match], end: int) -> None:
        stored, self._place = self._store.commit(self._place, matches, end)
        for committed in stored:
            self._on_commit(committed)
        TAKEN.inc(len(matches))

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
            match = Match(decoded.channel, decoded.backend, decoded.position, b"")
            cause = too_large(len(payload), self._result_limit_bytes)
            return match._replace(payload=_gap(match, cause))
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


def _rest_s(took_s: float) -> float:
    """How long to gather before the next commit."""
    return max(GATHER_S - took_s, min(took_s, MOST_GATHER_S))


def _end(message: Message) -> int:
    """Where the topic goes on behind a message."""
    offset = message.offset()
    assert offset is not None
    return offset + 1


def _gap(match: Match, cause: str) -> bytes:
    return gap_payload(Loss("", match.position, match.position + 1, 1, cause))
