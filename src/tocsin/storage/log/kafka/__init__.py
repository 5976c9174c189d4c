"""Kafka: a topic of one partition per dataset, positions are offsets. The company profile."""

from tocsin.storage.log.kafka.address import KafkaAddress, is_kafka
from tocsin.storage.log.kafka.clients import unavailable
from tocsin.storage.log.kafka.medium import RECORD_LIMIT_BYTES, Kafka
from tocsin.storage.log.kafka.reader import KafkaReader
from tocsin.storage.log.kafka.topics import Topics

__all__ = [
    "RECORD_LIMIT_BYTES",
    "Kafka",
    "KafkaAddress",
    "KafkaReader",
    "Topics",
    "is_kafka",
    "unavailable",
]
