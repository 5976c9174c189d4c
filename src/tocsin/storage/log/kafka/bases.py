"""Where the positions of datasets begin. A topic of Kafka begins at offset 0; a dataset that was
moved or restored goes on where it was. So a position is an offset plus the dataset's *base*, which
is 0 unless the topic of bases says otherwise. That is written once, before any dataset's topic."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tocsin.storage.log.kafka.address import KafkaAddress
from tocsin.storage.log.kafka.clients import WAIT_S, fetched, unavailable

Bases = dict[str, int]
"""By dataset."""


def read_bases(address: KafkaAddress, consumer: Consumer) -> Bases:
    """The consumer has nothing assigned before and after."""
    topic = address.bases_topic
    try:
        if topic not in _there(consumer, topic):
            return {}
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        if end == 0:  # who began to write it has not come further, nor to any dataset
            return {}
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            messages = fetched(consumer, 1, WAIT_S)
        finally:
            consumer.unassign()
    except KafkaException as error:
        raise unavailable(address, error.args[0]) from None
    if not messages or messages[0].error() is not None:
        raise unavailable(address, f"it gave nothing of {topic}")
    return msgspec.json.decode(messages[0].value() or b"{}", type=Bases)


def encode_bases(bases: Mapping[str, int]) -> bytes:
    return msgspec.json.encode(bases, order="deterministic")


def _there(consumer: Consumer, topic: str) -> set[str]:
    topics = consumer.list_topics(topic, timeout=WAIT_S).topics
    absent = KafkaError.UNKNOWN_TOPIC_OR_PART
    for metadata in topics.values():
        if metadata.error is not None and metadata.error.code() != absent:
            raise KafkaException(metadata.error)
    return {name for name, metadata in topics.items() if metadata.error is None}
