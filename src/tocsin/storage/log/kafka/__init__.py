"""Kafka: a topic of one partition per dataset, positions are offsets. The company profile."""

from tocsin.storage.log.kafka.address import KafkaAddress, is_kafka
from tocsin.storage.log.kafka.medium import Kafka, ensure_topic
from tocsin.storage.log.kafka.reader import KafkaReader

__all__ = ["Kafka", "KafkaAddress", "KafkaReader", "ensure_topic", "is_kafka"]
