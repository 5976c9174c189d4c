"""A Kafka cluster as the medium of a publication log: one producer for all datasets.

Everything is confirmed by all in-sync replicas (`acks=all`) before a publisher is told, and the
producer is idempotent, so that its own retries neither double nor reorder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tocsin.errors import SettingError
from tocsin.storage.log.kafka.address import FIELD, KafkaAddress
from tocsin.storage.log.kafka.dataset import KafkaDataset
from tocsin.storage.log.kafka.reader import WAIT_S, KafkaReader, unavailable

_logger = structlog.get_logger(__name__)

BATCH_BYTES = 16 * 1024 * 1024
KEPT = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""The cluster itself deletes records when they are stored and nobody needs them any more."""

Delivered = Callable[[KafkaError | None, Message], None]


class Kafka:
    batch_bytes = BATCH_BYTES

    def __init__(self, address: KafkaAddress, *, deliver_within_s: float = WAIT_S) -> None:
        self.at = address
        self._deliver_within_s = deliver_within_s
        self._fatal = False
        try:
            self._admin = AdminClient(address.client())
            self.reader = KafkaReader(address)
            self._producer = self._new_producer()
        except KafkaException as error:  # librdkafka looks at its options when it is made
            raise SettingError(
                f"Kafka's client refuses {address.shown}: {error.args[0].str()}",
                field=FIELD,
                hint="options behind '?' are librdkafka's, such as security.protocol=SSL",
            ) from None

    @property
    def address(self) -> str:
        return self.at.text

    def known_us(self) -> int:
        return 0  # each topic tells its own

    def open(self, dataset: str, primary_key: Sequence[str]) -> KafkaDataset:
        return KafkaDataset(self, dataset, primary_key)

    def show(self, ends: Mapping[str, int], last_us: int, *, sync: bool) -> None:
        """Nothing: readers ask Kafka."""

    def close(self) -> None:
        self._producer.flush(self._deliver_within_s)
        self.reader.close()

    def ensure_topic(self, topic: str) -> None:
        ensure_topic(self._admin, self.at, topic)

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        headers: list[tuple[str, str | bytes | None]] | None,
        on_delivery: Delivered,
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition=0, headers=headers, on_delivery=on_delivery
                )
            except BufferError:  # the producer's own queue is full: let it send
                self._producer.poll(0.1)
            except KafkaException as error:
                raise self.failure(error.args[0]) from None
            else:
                return

    def flush(self) -> None:
        """Wait until everything produced is confirmed or given up."""
        self._producer.flush(2 * self._deliver_within_s)

    def delete_records(self, topic: str, before: int) -> None:
        gone = self._admin.delete_records([TopicPartition(topic, 0, before)])
        for future in gone.values():
            try:
                future.result(2 * WAIT_S)
            except KafkaException as error:
                raise unavailable(self.at, error.args[0]) from None

    def failure(self, error: KafkaError) -> Exception:
        self._fatal = self._fatal or error.fatal()
        return unavailable(self.at, error)

    def renew_if_fatal(self) -> None:
        if self._fatal:
            _logger.warning("log.producer_renewed", kafka=self.at.shown)
            self._producer = self._new_producer()
            self._fatal = False

    def _new_producer(self) -> Producer:
        return Producer(
            self.at.client(
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "linger.ms": 0,  # the log gathers by itself
                    "message.timeout.ms": round(self._deliver_within_s * 1000),
                    "compression.type": "lz4",
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        )


def ensure_topic(admin: AdminClient, address: KafkaAddress, topic: str) -> None:
    """Make a topic of our own, unless it is there."""
    made = admin.create_topics(
        [NewTopic(topic, num_partitions=1, config=KEPT)],
        operation_timeout=WAIT_S,
        request_timeout=WAIT_S,
    )
    try:
        made[topic].result(2 * WAIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise unavailable(address, error.args[0]) from None
