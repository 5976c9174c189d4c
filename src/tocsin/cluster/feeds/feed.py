"""One dataset fed from a topic: chunk by chunk into the log, each record once.

What is about to go in is noted in the store first, and goes in under a key that follows from that
note. What a crash leaves in doubt is read again and sent again under the same key, and the log
takes it once. Records of a partition keep their order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from tocsin.cluster.feeds.topic import ForeignTopic, Messages
from tocsin.cluster.intake import Intake
from tocsin.cluster.worker import RETRY_S, Worker
from tocsin.errors import TocsinError, Unavailable
from tocsin.intake.formats import read_message
from tocsin.intake.sorting import Sorted
from tocsin.model import Dataset
from tocsin.service.trouble import Troubles
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.log.kafka.clients import offset_of
from tocsin.storage.store.feeds import Feeds as Places
from tocsin.storage.store.feeds import Place

log = structlog.get_logger()

WAITING = Gauge("tocsin_feed_waiting", "1 while a feed cannot go on", ["dataset"])
BEHIND = Gauge("tocsin_feed_behind_records", "Records that a feed has yet to take", ["dataset"])
GONE = Counter("tocsin_feed_gone_total", "Records gone before they were taken", ["dataset"])

WAIT_S = 0.5
LOOK_INTERVAL_S = 10.0  # for new partitions

PUBLISHER = "kafka"


class Feed(Worker):
    def __init__(
        self,
        dataset: Dataset,
        kafka: Callable[[], KafkaAddress],
        intake: Intake,
        places: Places,
        loop: asyncio.AbstractEventLoop,
        troubles: Troubles,
    ) -> None:
        super().__init__(f"feed-{dataset.name}")
        assert dataset.source is not None
        self._dataset = dataset
        self._source = dataset.source
        self._kafka = kafka
        self._intake = intake
        self._store = places
        self._loop = loop
        self._troubles = troubles
        self._waits_for = "has not begun"
        self._behind = 0
        self._places: dict[int, Place] = {}  # as the store has them

    def stop(self) -> None:
        """Returns when nothing of it goes into the log any more."""
        super().stop()
        for gauge in (WAITING, BEHIND):
            gauge.remove(self._dataset.name)
        self._troubles.clear(self._dataset.name)

    @property
    def state(self) -> str:
        if self._waits_for:
            return f"waits: {self._waits_for}"
        return f"{self._behind} records behind" if self._behind else "up to date"

    def _work(self) -> None:
        with ForeignTopic(self._kafka(), self._source.topic) as topic:
            self._take(topic)

    def _report(self, error: Exception) -> None:
        reason = str(error)
        if not isinstance(error, TocsinError):
            log.exception("a feed broke and begins again", dataset=self._dataset.name)
            reason = f"{type(error).__name__}: {error}"
        if reason != self._waits_for:
            log.warning("a feed waits", dataset=self._dataset.name, reason=reason)
        self._waits_for = reason
        self._troubles.put(self._dataset.name, reason)
        WAITING.labels(self._dataset.name).set(1)

    def _take(self, topic: ForeignTopic) -> None:
        """Until asked to stop, or until the topic is another."""
        self._places = self._store.places(self._dataset.name, topic.id)
        self._finish(topic)
        self._follow(topic, topic.partitions)
        looked_at = time.monotonic()
        while not self._stopping.is_set():
            messages = topic.next(WAIT_S)
            if messages:
                claims = {
                    partition: Place(self._places[partition].claimed, offset_of(batch[-1]) + 1)
                    for partition, batch in messages.items()
                }
                self._put(topic, self._all_done() | claims)
                self._append(topic, messages, claims)
            else:
                self._put(topic, self._all_done())
            self._tell(topic)
            if time.monotonic() > looked_at + LOOK_INTERVAL_S:
                looked_at = time.monotonic()
                if not topic.refresh():
                    log.warning("a topic was made anew", topic=self._source.topic)
                    return
                self._follow(topic, [p for p in topic.partitions if p not in self._places])

    def _finish(self, topic: ForeignTopic) -> None:
        """Send again what was in doubt when the last feed ended."""
        claims = {p: place for p, place in self._places.items() if place.claimed > place.done}
        if claims:
            starts = {p: self._kept(topic, p, place.done) for p, place in claims.items()}
            messages = topic.between({p: (starts[p], place.claimed) for p, place in claims.items()})
            self._append(topic, messages, claims)
            self._put(topic, self._all_done())

    def _follow(self, topic: ForeignTopic, partitions: list[int]) -> None:
        """Read them from where they were left: at first from the earliest record."""
        starts = {}
        for partition in partitions:
            known = self._places.get(partition)
            if known is None:
                starts[partition] = topic.bounds(partition)[0]
            else:
                starts[partition] = self._kept(topic, partition, known.done)
        self._put(topic, {partition: Place(at, at) for partition, at in starts.items()})
        topic.follow(starts)

    def _kept(self, topic: ForeignTopic, partition: int, wanted: int) -> int:
        """The offset, or the nearest one that the topic still has."""
        first, end = topic.bounds(partition)
        start = min(max(wanted, first), end)
        if start != wanted:
            GONE.labels(self._dataset.name).inc(max(0, start - wanted))
            log.warning(
                "a topic does not have what comes next; the feed goes on with what it has",
                dataset=self._dataset.name,
                topic=self._source.topic,
                partition=partition,
                wanted=wanted,
                start=start,
            )
        return start

    def _append(self, topic: ForeignTopic, messages: Messages, claims: Mapping[int, Place]) -> None:
        """Returns when all is durable in the log."""
        columns = [column.name for column in self._dataset.columns]
        whole = Sorted([], 0, [], [])
        for partition in sorted(messages):
            records = [
                read_message(offset_of(message), message.value(), self._source.format, columns)
                for message in messages[partition]
            ]
            source = f"kafka:{self._source.topic}/{partition}"
            whole = whole.with_more(self._intake.sort(self._dataset, records, PUBLISHER, source))
        key = self._key(topic, claims)
        while True:
            appending = self._intake.append(self._dataset.name, whole, key)
            try:
                asyncio.run_coroutine_threadsafe(appending, self._loop).result()
            except Unavailable as error:
                self._report(error)
                if self._stopping.wait(RETRY_S):
                    raise
            else:
                return

    def _key(self, topic: ForeignTopic, claims: Mapping[int, Place]) -> str:
        """By which the log knows the chunk again: it follows from what was noted."""
        ranges = [[partition, *place] for partition, place in sorted(claims.items())]
        content = [self._dataset.name, self._dataset.created_at, topic.id, ranges]
        return blake2b(msgspec.json.encode(content), digest_size=16).hexdigest()

    def _all_done(self) -> dict[int, Place]:
        """The places of those partitions whose last chunk is durable by now."""
        return {
            partition: Place(place.claimed, place.claimed)
            for partition, place in self._places.items()
            if place.claimed > place.done
        }

    def _put(self, topic: ForeignTopic, places: Mapping[int, Place]) -> None:
        self._store.put(self._dataset.name, topic.id, places)
        self._places |= places

    def _tell(self, topic: ForeignTopic) -> None:
        self._behind = topic.behind({p: place.claimed for p, place in self._places.items()})
        BEHIND.labels(self._dataset.name).set(self._behind)
        WAITING.labels(self._dataset.name).set(0)
        if self._waits_for:
            log.info("a feed reads", dataset=self._dataset.name, topic=self._source.topic)
        self._waits_for = ""
        self._troubles.clear(self._dataset.name)
