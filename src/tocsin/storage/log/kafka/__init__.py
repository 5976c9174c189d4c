"""Kafka: a topic of one partition per dataset, positions are offsets. The company profile.

An address needs no library; whatever speaks with Kafka is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tocsin.storage.log.kafka.address import RECORD_LIMIT_BYTES, KafkaAddress, is_kafka

if TYPE_CHECKING:
    from tocsin.storage.log.kafka.clients import unavailable
    from tocsin.storage.log.kafka.medium import Kafka
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

_MODULES = {
    "Kafka": "medium",
    "KafkaReader": "reader",
    "Topics": "topics",
    "unavailable": "clients",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
