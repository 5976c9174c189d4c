"""A Kafka producer whose every transaction also says how far its delivery has come.

Progress is a record of the compacted topic of deliveries. Opening fences whoever delivered the same
channel before, and settles what it left open, so that what is read then is the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tocsin.cluster.deliveries.topics import LARGEST_MESSAGE_BYTES, ensure_topics
from tocsin.errors import Unavailable
from tocsin.protocol.consumer_log import Progress, decode_progress, encode
from tocsin.storage.log.kafka import KafkaAddress, unavailable

WAIT_S = 30.0
_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_TXN_STATE,
}

OnDelivery = Callable[[KafkaError | None, Any], None]


class Sizes:
    """Which results a topic does not take because they are too large. Kafka refuses batches, so one
    that was refused is tried again alone before that is believed."""

    def __init__(self) -> None:
        self._refusals: dict[int, int] = {}

    def refused(self, number: int) -> None:
        self._refusals[number] = self._refusals.get(number, 0) + 1

    def is_doubtful(self, number: int) -> bool:
        return self._refusals.get(number) == 1

    def is_too_large(self, number: int) -> bool:
        return self._refusals.get(number, 0) > 1


class Fenced(Exception):
    """Somebody else delivers this channel now."""


class Transactions:
    """One delivery's producer. Whatever fails, it is thrown away and opened again."""

    def __init__(self, address: KafkaAddress, name: str, key: str, sizes: Sizes) -> None:
        """`name` is what only one may deliver at a time, `key` is whose progress it is."""
        self._address = address
        self._sizes = sizes
        self._key = key.encode()
        self._producer = Producer(
            address.client(
                **{
                    "transactional.id": f"{address.prefix}.delivery.{name}",
                    "transaction.timeout.ms": 60_000,
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "message.max.bytes": LARGEST_MESSAGE_BYTES,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        )

    def open(self) -> Progress:
        """How far the delivery has come; from now on nobody else takes it further."""
        admin = AdminClient(self._address.client())
        ensure_topics(admin, self._address, [self._address.deliveries_topic], _COMPACTED)
        try:
            self._producer.init_transactions(WAIT_S)
        except KafkaException as error:
            self._failed(error)
        return self._read()

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            self._failed(error)

    def takes(self, number: int) -> bool:
        """Whether the topic takes a result, as far as is known."""
        return not self._sizes.is_too_large(number)

    def produce(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        *,
        one_partition: bool = True,
        on_delivery: OnDelivery | None = None,
        number: int | None = None,
    ) -> None:
        """Within a transaction. `on_delivery` hears where it went. `number` is that of the result,
        in a topic that may be too small for it."""
        alone = number is not None and self._sizes.is_doubtful(number)
        if alone:
            self.flush()
        self._produce(topic, key, value, one_partition, on_delivery, number)
        if alone:
            self.flush()

    def _produce(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        one_partition: bool,
        on_delivery: OnDelivery | None,
        number: int | None,
    ) -> None:
        def refused(error: KafkaError | None, _: Any) -> None:
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                assert number is not None
                self._sizes.refused(number)

        more: dict[str, Any] = {"partition": 0} if one_partition else {}
        if on_delivery is not None or number is not None:
            more["on_delivery"] = on_delivery or refused
        while True:
            try:
                self._producer.produce(topic, value, key, **more)
            except BufferError:  # the producer's own queue is full: let it send
                self._producer.poll(0.1)
            except KafkaException as error:
                if number is not None:
                    refused(error.args[0], None)
                self._failed(error)
            else:
                return

    def flush(self) -> None:
        """Until everything produced was told of."""
        if self._producer.flush(WAIT_S):
            raise Unavailable(f"Kafka at {self._address.shown} does not take what is delivered")

    def commit(self, progress: Progress) -> None:
        """What was produced, and how far that is: both or nothing."""
        topic = self._address.deliveries_topic
        self.produce(topic, self._key, encode(progress))
        try:
            self._producer.commit_transaction(WAIT_S)
        except KafkaException as error:
            self._failed(error)

    def close(self) -> None:
        """What was begun and not committed is undone, now or by the next who opens."""
        try:
            self._producer.abort_transaction(1.0)
        except KafkaException:
            return

    def _read(self) -> Progress:
        """The last progress that was committed. Other deliveries may have transactions open in the
        same topic: read on until all that was there is settled."""
        consumer = Consumer(
            self._address.client(
                **{
                    "group.id": f"{self._address.prefix}-deliveries",  # never committed to
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": 20,
                }
            )
        )
        place = TopicPartition(self._address.deliveries_topic, 0)
        try:
            first, end = _bounds(self._address, place)
            consumer.assign([TopicPartition(place.topic, 0, first)])
            progress = Progress()
            give_up_at = time.monotonic() + 3 * WAIT_S  # longer than a transaction may stay open
            while first < end:
                for message in consumer.consume(1000, timeout=0.1):
                    failure = message.error()
                    if failure is not None:
                        raise unavailable(self._address, failure)
                    if message.key() == self._key:
                        progress = decode_progress(message.value() or b"{}")
                (at,) = consumer.position([place])
                first = max(first, at.offset)
                if time.monotonic() > give_up_at:
                    raise Unavailable(f"{place.topic} cannot be read to its end")
            return progress
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None
        finally:
            consumer.close()

    def _failed(self, error: KafkaException) -> NoReturn:
        reason: KafkaError = error.args[0]
        if reason.code() in _FENCED and reason.fatal():
            raise Fenced(
                "another cluster delivers this channel (two clusters must not have the same log:"
                " give one a prefix of its own)"
            ) from None
        raise unavailable(self._address, reason) from None


def _bounds(address: KafkaAddress, place: TopicPartition) -> tuple[int, int]:
    """Of everything, settled or not."""
    asking = Consumer(
        address.client(
            **{"group.id": f"{address.prefix}-deliveries", "isolation.level": "read_uncommitted"}
        )
    )
    try:
        first, end = asking.get_watermark_offsets(place, timeout=WAIT_S)
        return int(first), int(end)
    finally:
        asking.close()
