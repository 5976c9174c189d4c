"""Reading topics, from any process: what came next, and records by offset.

A record's JSON is as segments have it: `{"p":position,"t":…,"r":{…},"x":{…}}`; in the topic `p` is
left out, because it is the offset and the dataset's base (`bases`). What others wrote to the topic
is passed over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.errors import NotFound
from tocsin.protocol import log_line
from tocsin.storage.log.kafka.address import KafkaAddress
from tocsin.storage.log.kafka.bases import Bases, read_bases
from tocsin.storage.log.kafka.clients import (
    WAIT_S,
    consumer,
    fetched,
    offset_of,
    unavailable,
)
from tocsin.storage.log.kafka.follower import Follower
from tocsin.storage.log.port import News, gone

RECORD_BYTES = 500  # what a record is taken to be where only offsets are known
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_LEADERLESS = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_FETCHED_AT_ONCE = 500
_LOOK_AGAIN_S = 1.0


class KafkaReader:
    """Thread-safe, except `news`: ranges are read by one consumer, one call at a time."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._own: Consumer | None = None
        self._follower: Follower | None = None
        self._bases: Bases | None = None  # they never change

    def __reduce__(self) -> tuple[type[KafkaReader], tuple[KafkaAddress]]:
        return KafkaReader, (self._address,)  # Spark sends it to other processes

    @property
    def address(self) -> str:
        return self._address.text

    @property
    def kafka(self) -> KafkaAddress:
        return self._address

    def first_position(self, dataset: str) -> int:
        return self.positions(dataset)[0]

    def base(self, dataset: str) -> int:
        """The position of the topic's first message ever."""
        if self._bases is None:
            with self._lock:
                self._bases = read_bases(self._address, self._consumer())
        return self._bases.get(dataset, 0)

    def positions(self, dataset: str) -> tuple[int, int]:
        """The first that is kept, and the one after the last."""
        base = self.base(dataset)
        first, end = self.bounds(self._address.topic(dataset))
        return base + first, base + end

    def placed(self, dataset: str, start: int, end: int) -> Iterator[tuple[int, Message]]:
        """The messages in [start, end), with their positions."""
        base = self.base(dataset)
        for message in self.messages(self._address.topic(dataset), start - base, end - base):
            yield base + offset_of(message), message

    def lines(
        self, dataset: str, start: int, end: int, max_bytes: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        lines: list[tuple[int, bytes]] = []
        room_bytes = max_bytes
        for position, message in self.placed(dataset, start, end):
            line = log_line.message_body(position, message.value())
            if line is None:
                continue
            if room_bytes is not None:
                room_bytes -= len(line)
                if room_bytes < 0 and lines:
                    break
            lines.append((position, line))
        return iter(lines)

    def record_at(self, dataset: str, position: int) -> int:
        return position

    def end_of(self, position: int, body: bytes) -> int:
        return position + 1

    def ends(self, dataset: str, positions: Sequence[int], end: int) -> list[int]:
        return [position + 1 for position in positions]

    def news(self, starts: Mapping[str, int], most_bytes: int) -> dict[str, News]:
        if self._follower is None:
            self._follower = Follower(self._address, self.base)
        return self._follower.news(starts, most_bytes)

    def size_bytes(self, start: int, end: int) -> int:
        return max(0, end - start) * RECORD_BYTES

    def span(self, size_bytes: int) -> int:
        return max(1, size_bytes // RECORD_BYTES)

    def count(self, dataset: str, start: int, end: int) -> int:
        return max(0, end - start)

    def pieces(self, dataset: str, start: int, end: int, most_bytes: int) -> list[tuple[int, int]]:
        step = max(1, most_bytes // RECORD_BYTES)
        cuts = range(start, end, step)
        return [(first, min(first + step, end)) for first in cuts]

    def close(self) -> None:
        with self._lock:
            for client in (self._own, self._follower):
                if client is not None:
                    client.close()
            self._own = self._follower = None

    def bounds(self, topic: str) -> tuple[int, int]:
        """The first offset kept, and the one after the last."""
        with self._lock:
            return self._bounds(topic)

    def messages(self, topic: str, start: int, end: int) -> Iterator[Message]:
        """The messages in [start, end), which must all be there. Nobody else reads meanwhile."""
        if start >= end:
            return
        with self._lock:
            self._consumer().assign([TopicPartition(topic, 0, start)])
            try:
                position = start
                while position < end:
                    most = min(end - position, _FETCHED_AT_ONCE)
                    for message in self._fetched(topic, position, most):
                        position = offset_of(message) + 1
                        if position > end:
                            return
                        yield message
            finally:
                self._consumer().unassign()

    def _bounds(self, topic: str) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                first, end = self._consumer().get_watermark_offsets(place, timeout=WAIT_S)
                return int(first), int(end)
            except KafkaException as error:
                why: KafkaError = error.args[0]
                if why.code() not in _LEADERLESS or time.monotonic() > deadline:
                    raise self._failure(why, topic) from None
                time.sleep(0.05)  # it was just made, or Kafka just came back

    def _consumer(self) -> Consumer:
        if self._own is None:
            # What is read is there. A fetch behind it must not keep the next read waiting.
            self._own = consumer(self._address, **{"fetch.wait.max.ms": 1})
        return self._own

    def _fetched(self, topic: str, position: int, most: int) -> list[Message]:
        deadline = time.monotonic() + WAIT_S
        while not (messages := fetched(self._consumer(), most, _LOOK_AGAIN_S)):
            self._bounds(topic)  # is it there at all?
            if time.monotonic() > deadline:
                raise unavailable(self._address, f"it gave nothing of {topic} from {position}")
        for message in messages:
            error = message.error()
            if error is not None:
                raise self._failure(error, topic, position)
        return messages

    def _failure(self, error: KafkaError, topic: str, position: int = 0) -> Exception:
        dataset = topic.removeprefix(self._address.topic(""))
        if error.code() in _UNKNOWN:
            away = self._away(topic)
            if away is not None:
                return unavailable(self._address, away)
            return NotFound(f"the log has no dataset {dataset!r}", field=dataset)
        if error.code() in _OUT_OF_RANGE:
            return gone(dataset, position + (self._bases or {}).get(dataset, 0))
        return unavailable(self._address, error)

    def _away(self, topic: str) -> KafkaError | str | None:
        """Why Kafka cannot say whether the topic exists; None: it says that it does not. The client
        alone says so too, when it has not reached Kafka for a while."""
        try:
            metadata = self._consumer().list_topics(topic, timeout=WAIT_S).topics[topic]
        except KafkaException as broken:
            return broken.args[0]  # type: ignore[no-any-return]
        error = metadata.error
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        return error or "it just came back"
