"""The topics that deliveries write: looked for, made and deleted."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tocsin.errors import NotFound
from tocsin.storage.log.kafka import KafkaAddress, unavailable

LARGEST_MESSAGE_BYTES = 32 * 1024 * 1024
SMALLEST_SEGMENT_BYTES = 1024 * 1024  # Kafka takes no smaller
WAIT_S = 10.0


class Topics:
    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._admin = AdminClient(address.client())

    def require(self, topic: str) -> None:
        if topic not in self.there():
            raise NotFound(
                f"Kafka at {self._address.shown} has no topic {topic!r}",
                field="DELIVER TO KAFKA",
                hint="create it first, with the partitions and the retention that its readers need",
            )

    def there(self, beginning: str = "") -> set[str]:
        try:
            topics = self._admin.list_topics(timeout=WAIT_S).topics
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None
        return {name for name in topics if name.startswith(beginning)}

    def make_logs(
        self, topics: Sequence[str], *, keep_bytes: int | None, keep_s: float | None
    ) -> None:
        """Logs of one partition that drop their oldest by size or by age."""
        config = {
            "cleanup.policy": "delete",
            "retention.ms": "-1" if keep_s is None else str(round(keep_s * 1000)),
            "retention.bytes": str(keep_bytes or -1),
            "max.message.bytes": str(LARGEST_MESSAGE_BYTES),
        }
        if keep_bytes:  # a segment leaves as a whole, and the newest one stays
            size_bytes = min(max(keep_bytes // 4, SMALLEST_SEGMENT_BYTES), 2**30)
            config["segment.bytes"] = str(size_bytes)
        ensure_topics(self._admin, self._address, topics, config)

    def delete(self, topics: Sequence[str]) -> None:
        if not topics:
            return
        for future in self._admin.delete_topics(list(topics), operation_timeout=WAIT_S).values():
            try:
                future.result(2 * WAIT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise unavailable(self._address, error.args[0]) from None


def ensure_topics(
    admin: AdminClient, address: KafkaAddress, topics: Sequence[str], config: dict[str, str]
) -> None:
    """Make topics of one partition, those that are not there."""
    if not topics:
        return
    created = admin.create_topics(
        [NewTopic(topic, num_partitions=1, config=config) for topic in topics],
        operation_timeout=WAIT_S,
        request_timeout=WAIT_S,
    )
    for future in created.values():
        try:
            future.result(2 * WAIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise unavailable(address, error.args[0]) from None
