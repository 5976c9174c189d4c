"""What all Kafka clients here share: how long they wait, and the error when nothing came.

Messages of librdkafka itself go to the debug log.
"""

from __future__ import annotations

from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from tocsin.errors import SettingError, Unavailable
from tocsin.storage.log.kafka.address import FIELD, KafkaAddress

_logger = structlog.get_logger(__name__)

WAIT_S = 10.0
PROBE_S = 3.0


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


def check_reachable(address: KafkaAddress) -> None:
    """Raise `Unavailable` if nobody answers there now, `SettingError` if we are not let in."""
    errors: list[KafkaError] = []
    try:
        client = AdminClient(address.client(error_cb=errors.append))
    except KafkaException as error:
        raise refused_options(address, error) from None
    try:
        client.list_topics(timeout=PROBE_S)
    except KafkaException as error:
        client.poll(0.1)  # calls back with what happened on the way
        if any(said.code() == KafkaError._AUTHENTICATION for said in errors):
            raise SettingError(
                f"Kafka at {address.shown} does not let us in: {errors[-1].str()}",
                field=FIELD,
                hint="check user and password in the address",
            ) from None
        raise unavailable(address, errors[-1] if errors else error.args[0]) from None


def refused_options(address: KafkaAddress, error: KafkaException) -> SettingError:
    """librdkafka looks at its options when a client is made."""
    return SettingError(
        f"Kafka's client refuses {address.shown}: {error.args[0].str()}",
        field=FIELD,
        hint="options behind '?' are librdkafka's, such as security.protocol=SSL",
    )


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
