"""What all Kafka clients here share: how long they wait, and the error when nothing came.

Messages of librdkafka itself go to the debug log.
"""

from __future__ import annotations

from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, Message

from tocsin.errors import Unavailable
from tocsin.storage.log.kafka.address import KafkaAddress

_logger = structlog.get_logger(__name__)

WAIT_S = 10.0


def consumer(address: KafkaAddress, **more: Any) -> Consumer:
    """A consumer with assigned partitions: it joins no group and commits nothing."""
    config = {
        "group.id": "tocsin",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "error_cb": chatter,
    }
    return Consumer(address.client(**config | more))


def fetched(consumer: Consumer, most: int, wait_s: float) -> list[Message]:
    """What is there, errors too; waits for the first only."""
    first = consumer.poll(wait_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, 0)] if most > 1 else [first]


def chatter(error: KafkaError) -> None:
    _logger.debug("kafka", said=error.str())


def unavailable(address: KafkaAddress, why: KafkaError | str) -> Unavailable:
    reason = why if isinstance(why, str) else why.str()
    return Unavailable(
        f"Kafka at {address.shown} cannot answer: {reason}",
        hint="check that it runs, and the address, user and rights in the settings",
    )


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
