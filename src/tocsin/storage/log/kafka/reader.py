"""Reading topics, from any process: ends, and records by offset.

A record's JSON is as segments have it: `{"p":offset,"t":…,"r":{…},"x":{…}}`; in the topic `p` is
left out, because Kafka itself tells it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.errors import Gone, NotFound, Unavailable
from tocsin.storage.log.kafka.address import KafkaAddress

WAIT_S = 10.0
RECORD_BYTES = 500  # what a record is taken to be where only offsets are known
_FETCHED_AT_ONCE = 1000


class KafkaReader:
    """Thread-safe: one consumer, used by one call at a time."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._own: Consumer | None = None

    @property
    def address(self) -> str:
        return self._address.text

    @property
    def kafka(self) -> KafkaAddress:
        return self._address

    def ends(self, datasets: Sequence[str]) -> dict[str, int]:
        found = {}
        for dataset in datasets:
            try:
                found[dataset] = self.bounds(dataset)[1]
            except NotFound:
                continue
        return found

    def bounds(self, dataset: str) -> tuple[int, int]:
        """The first offset kept, and the one after the last."""
        place = TopicPartition(self._address.topic(dataset), 0)
        try:
            with self._lock:
                first, end = self._consumer().get_watermark_offsets(place, timeout=WAIT_S)
        except KafkaException as error:
            raise self._failure(error.args[0], dataset) from None
        return int(first), int(end)

    def first_position(self, dataset: str) -> int:
        return self.bounds(dataset)[0]

    def lines(
        self, dataset: str, start: int, end: int, max_bytes: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        room_bytes = max_bytes
        for message in self.messages(dataset, start, end):
            value = message.value() or b"{}"
            offset = _offset(message)
            if room_bytes is not None:
                room_bytes -= len(value)
                if room_bytes < 0 and found:
                    break
            found.append((offset, b'{"p":%d,%b' % (offset, value[1:])))
        return iter(found)

    def messages(self, dataset: str, start: int, end: int) -> Iterator[Message]:
        """The messages in [start, end), which must all be there. Nobody else reads meanwhile."""
        if start >= end:
            return
        with self._lock:
            consumer = self._consumer()
            consumer.assign([TopicPartition(self._address.topic(dataset), 0, start)])
            try:
                position = start
                while position < end:
                    most = min(end - position, _FETCHED_AT_ONCE)
                    for message in self._fetched(consumer, dataset, position, most):
                        position = _offset(message) + 1
                        if position > end:
                            return
                        yield message
            finally:
                consumer.unassign()

    def after(self, position: int, body: bytes) -> int:
        return position + 1

    def size_bytes(self, start: int, end: int) -> int:
        return max(0, end - start) * RECORD_BYTES

    def pieces(self, dataset: str, start: int, end: int, most_bytes: int) -> list[tuple[int, int]]:
        step = max(1, most_bytes // RECORD_BYTES)
        cuts = range(start, end, step)
        return [(first, min(first + step, end)) for first in cuts]

    def close(self) -> None:
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None

    def _consumer(self) -> Consumer:
        if self._own is None:
            self._own = Consumer(
                self._address.client(
                    **{
                        "group.id": f"tocsin-reader-{uuid.uuid4().hex}",  # never committed to
                        "enable.auto.commit": False,
                        "auto.offset.reset": "error",
                        "fetch.wait.max.ms": 10,
                        "allow.auto.create.topics": False,
                    }
                )
            )
        return self._own

    def _fetched(self, consumer: Consumer, dataset: str, position: int, most: int) -> list[Message]:
        found = consumer.consume(most, timeout=WAIT_S)
        if not found:
            raise Unavailable(
                f"Kafka at {self._address.shown} gave nothing of {dataset} from {position}",
                hint="is it running? It is asked again",
            )
        for message in found:
            error = message.error()
            if error is not None:
                raise self._failure(error, dataset, position)
        return found

    def _failure(self, error: KafkaError, dataset: str, position: int = 0) -> Exception:
        code = error.code()
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            return NotFound(f"the log has no dataset {dataset!r}", field=dataset)
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return Gone(
                f"the log of {dataset} no longer keeps position {position}",
                field=dataset,
                hint="older records are in the stored dataset, unless RETAIN dropped them",
            )
        return unavailable(self._address, error)


def unavailable(address: KafkaAddress, error: KafkaError) -> Unavailable:
    return Unavailable(
        f"Kafka at {address.shown} cannot answer: {error.str()}",
        hint="check that it runs, and the address, user and rights in the setting log",
    )


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
