"""The publication log: records per dataset, durable before they are acknowledged.

`PublicationLog` is the one writer; a `Reader` serves any number of processes. What holds the
records is a medium: segment files in a directory, or topics of a Kafka cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.storage.identity import Mark
from tocsin.storage.log.kafka import RECORD_LIMIT_BYTES, KafkaAddress
from tocsin.storage.log.port import Appended, Cut, Leadership, Reader
from tocsin.storage.log.segments import SegmentReader, Segments
from tocsin.storage.log.writer import PublicationLog

__all__ = [
    "Appended",
    "Cut",
    "PublicationLog",
    "Reader",
    "check_reachable",
    "open_log",
    "open_reader",
]


def open_log(
    address: str | Path,
    *,
    segment_bytes: int,
    record_limit_bytes: int = RECORD_LIMIT_BYTES,
    owner: Mark | None = None,
    leadership: Leadership | None = None,
    **options: Any,
) -> PublicationLog:
    """The log at a directory or a kafka:// address; `options` as `PublicationLog` takes them.

    Others may be near: a directory is locked; topics are refused that belong to another `owner`,
    and are written under the `leadership` alone.
    """
    kafka = _kafka(str(address))
    if kafka is not None:
        from tocsin.storage.log.kafka import Kafka

        medium = Kafka(
            kafka, owner=owner, leadership=leadership, record_limit_bytes=record_limit_bytes
        )
        return PublicationLog(medium, **options)
    return PublicationLog(Segments(Path(address), segment_bytes=segment_bytes), **options)


def check_reachable(address: str) -> None:
    """Raise `Unavailable` if the log lies on a server that does not answer now."""
    kafka = _kafka(address)
    if kafka is not None:
        from tocsin.storage.log.kafka import clients

        clients.check_reachable(kafka)


def open_reader(address: str) -> Reader:
    kafka = _kafka(address)
    if kafka is None:
        return SegmentReader(Path(address))
    from tocsin.storage.log.kafka import KafkaReader

    return KafkaReader(kafka)


def _kafka(address: str) -> KafkaAddress | None:
    if "://" not in address:
        return None
    return KafkaAddress.parse(address)
