"""The publication log: records per dataset, durable before anyone is told.

`PublicationLog` is the one writer; a `Reader` serves any number of processes. What holds the
records is a medium: segment files in a directory, or topics of a Kafka cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.storage.log.kafka import Kafka, KafkaAddress, KafkaReader, is_kafka
from tocsin.storage.log.port import Appended, Cut, Reader
from tocsin.storage.log.segments import SegmentReader, Segments
from tocsin.storage.log.writer import PublicationLog

__all__ = [
    "Appended",
    "Cut",
    "PublicationLog",
    "Reader",
    "open_log",
    "open_reader",
]


def open_log(address: str | Path, *, segment_bytes: int, **options: Any) -> PublicationLog:
    """The log at a directory or a kafka:// address; `options` as `PublicationLog` takes them."""
    if is_kafka(str(address)):
        return PublicationLog(Kafka(KafkaAddress.parse(str(address))), **options)
    return PublicationLog(Segments(Path(address), segment_bytes=segment_bytes), **options)


def open_reader(address: str) -> Reader:
    if is_kafka(address):
        return KafkaReader(KafkaAddress.parse(address))
    return SegmentReader(Path(address))
