"""Kafka: a topic of one partition per dataset, positions are offsets. The company profile."""

from tocsin.storage.log.kafka.address import KafkaAddress, is_kafka
from tocsin.storage.log.kafka.medium import Kafka
from tocsin.storage.log.kafka.reader import KafkaReader

__all__ = ["Kafka", "KafkaAddress", "KafkaReader", "is_kafka"]
