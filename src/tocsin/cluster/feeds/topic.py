"""A topic that others fill: any number of partitions, any producer, any gaps between offsets.

Knows nothing of records or datasets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        description = _described(self._topics, self._address, self._name)
        self.id = str(description.topic_id)
        self.partitions = sorted(partition.id for partition in description.partitions)
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
        messages: Messages = {}
        batch = [] if first is None else [first]
        count = size_bytes = 0
        while batch:
            for message in self._records(batch):
                messages.setdefault(_partition(message), []).append(message)
                size_bytes += len(message.value() or b"")
            count += len(batch)
            if count >= MOST_RECORDS or size_bytes >= MOST_BYTES:
                break
            batch = self._consumer.consume(_AT_ONCE, 0)
        return messages

    def between(self, ranges: Mapping[int, tuple[int, int]]) -> Messages:
        """What is left of these offsets: all of them, unless the topic has let go of some."""
        messages: Messages = {partition: [] for partition in ranges}
        open_ = {partition for partition, (start, end) in ranges.items() if start < end}
        self.follow({partition: ranges[partition][0] for partition in open_})
        while open_:
            message = self._consumer.poll(WAIT_S)
            if message is None:
                raise unavailable(self._address, f"it gave nothing of topic {self._name}")
            partition = _partition(message)
            if partition not in open_:
                continue
            if not self._records([message]):  # the end of the partition
                open_.discard(partition)
                continue
            end = ranges[partition][1]
            if offset_of(message) < end:
                messages[partition].append(message)
            if offset_of(message) >= end - 1:
                open_.discard(partition)
        self._consumer.unassign()
        return messages

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _records(self, messages: Iterable[Message]) -> list[Message]:
        """Those that are no signs; an error is raised."""
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise Unavailable(f"topic {self._name} has let go of what comes next")
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[_partition(message)] = offset_of(message)
            else:
                raise unavailable(self._address, error)
        return records


def _described(topics: Topics, address: KafkaAddress, name: str) -> TopicDescription:
    description = topics.describe(name)
    if description is None:
        raise NotFound(
            f"Kafka at {address.shown} has no topic {name!r}",
            field="topic",
            hint="check its name, and the setting kafka",
        )
    return description


def _partition(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition
