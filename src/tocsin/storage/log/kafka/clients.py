"""What all of our Kafka clients share: how long they wait, and what is said when that was in vain.

librdkafka's own chatter goes to the debug log.
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
    """A consumer that is told what to read: it joins no group and commits nothing."""
    told = {
        "group.id": "tocsin",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "error_cb": chatter,
    }
    return Consumer(address.client(**told | more))


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


def offset_of(one: Message) -> int:
    offset = one.offset()
    assert offset is not None
    return offset
