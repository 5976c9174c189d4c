"""A topic that others fill: any number of partitions, any producer, any gaps between offsets.

Knows nothing of records or datasets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import TopicDescription

from tocsin.errors import NotFound, Unavailable
from tocsin.storage.log.kafka import KafkaAddress, Topics
from tocsin.storage.log.kafka.clients import WAIT_S, consumer, offset_of, unavailable

MOST_BYTES = 4 * 1024 * 1024
MOST_RECORDS = 5000
_AT_ONCE = 200
_QUEUE_KB = 16 * 1024

Messages = dict[int, list[Message]]
"""By partition, each in its order."""


class ForeignTopic:
    """For one thread, except `check`. Use as a context manager."""

    def __init__(self, address: KafkaAddress, name: str) -> None:
        self._address = address
        self._name = name
        self._topics = Topics(address)
        self.id = ""
        self.partitions: list[int] = []
        self._ends: dict[int, int] = {}  # up to here nothing is left, be it records or not
        self.refresh()
        self._consumer = consumer(
            address,
            **{"enable.partition.eof": True, "queued.max.messages.kbytes": _QUEUE_KB},
        )

    @staticmethod
    def check(address: KafkaAddress, name: str) -> None:
        """NotFound if there is no such topic."""
        _described(Topics(address), address, name)

    def refresh(self) -> bool:
        """Look how many partitions there are; whether this is still the same topic."""
        known = self.id
        found = _described(self._topics, self._address, self._name)
        self.id = str(found.topic_id)
        self.partitions = sorted(one.id for one in found.partitions)
        return self.id == known

    def bounds(self, partition: int) -> tuple[int, int]:
        """The first offset that is kept, and the one after the last."""
        place = TopicPartition(self._name, partition)
        try:
            first, end = self._consumer.get_watermark_offsets(place, timeout=WAIT_S)
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None
        return int(first), int(end)

    def behind(self, positions: Mapping[int, int]) -> int:
        """How many records at most are not read yet, as far as is known without asking."""
        count = 0
        for partition, position in positions.items():
            place = TopicPartition(self._name, partition)
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            count += max(0, end - max(position, self._ends.get(partition, 0)))
        return count

    def follow(self, positions: Mapping[int, int]) -> None:
        """From now on read these partitions too."""
        self._consumer.incremental_assign(
            [TopicPartition(self._name, partition, at) for partition, at in positions.items()]
        )

    def next(self, wait_s: float) -> Messages:
        """What is there, up to a bound; waits for the first only."""
        first = self._consumer.poll(wait_s)
        found: Messages = {}
        some = [] if first is None else [first]
        count = size_bytes = 0
        while some:
            for one in self._records(some):
                found.setdefault(_partition(one), []).append(one)
                size_bytes += len(one.value() or b"")
            count += len(some)
            if count >= MOST_RECORDS or size_bytes >= MOST_BYTES:
                break
            some = self._consumer.consume(_AT_ONCE, 0)
        return found

    def between(self, ranges: Mapping[int, tuple[int, int]]) -> Messages:
        """What is left of these offsets: all of them, unless the topic has let go of some."""
        found: Messages = {partition: [] for partition in ranges}
        open_ = {partition for partition, (start, end) in ranges.items() if start < end}
        self.follow({partition: ranges[partition][0] for partition in open_})
        while open_:
            one = self._consumer.poll(WAIT_S)
            if one is None:
                raise unavailable(self._address, f"it gave nothing of topic {self._name}")
            partition = _partition(one)
            if partition not in open_:
                continue
            if not self._records([one]):  # the end of the partition
                open_.discard(partition)
                continue
            end = ranges[partition][1]
            if offset_of(one) < end:
                found[partition].append(one)
            if offset_of(one) >= end - 1:
                open_.discard(partition)
        self._consumer.unassign()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def _records(self, messages: Iterable[Message]) -> list[Message]:
        """Those that are no signs; an error is raised."""
        found = []
        for one in messages:
            error = one.error()
            if error is None:
                found.append(one)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise Unavailable(f"topic {self._name} has let go of what comes next")
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[_partition(one)] = offset_of(one)
            else:
                raise unavailable(self._address, error)
        return found


def _described(topics: Topics, address: KafkaAddress, name: str) -> TopicDescription:
    found = topics.describe(name)
    if found is None:
        raise NotFound(
            f"Kafka at {address.shown} has no topic {name!r}",
            field="topic",
            hint="check its name, and the setting kafka",
        )
    return found


def _partition(one: Message) -> int:
    partition = one.partition()
    assert partition is not None
    return partition
