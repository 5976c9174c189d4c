"""The media of the publication log, for tests that hold for each. To add one, add it to MEDIA."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from tocsin.dev.kafka import Kafka as KafkaServer
from tocsin.storage.log import PublicationLog, Reader, open_reader
from tocsin.storage.log.kafka import Kafka, KafkaAddress
from tocsin.storage.log.segments import Segments
from tocsin.storage.log.segments.disk import Disk

SEGMENT_BYTES = 200


class MediumUnderTest(Protocol):
    """A place for one log that nobody else uses."""

    @property
    def address(self) -> str: ...

    def open(self, *, forgetful: bool = False, **options: Any) -> PublicationLog:
        """`forgetful`: it keeps no record only for the keys' sake."""

    def held(self) -> Any:
        """Within this context nothing becomes durable."""


class OnSegments:
    def __init__(self, request: pytest.FixtureRequest, directory: Path) -> None:
        self.directory = directory / "log"
        self._disk = Gate()

    @property
    def address(self) -> str:
        return str(self.directory)

    def open(self, *, forgetful: bool = False, **options: Any) -> PublicationLog:
        medium = Segments(self.directory, segment_bytes=SEGMENT_BYTES, disk=self._disk)
        return PublicationLog(medium, **options)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._disk.opened.clear()
        yield
        self._disk.opened.set()


class OnKafka:
    def __init__(self, request: pytest.FixtureRequest, directory: Path) -> None:
        self.server: KafkaServer = request.getfixturevalue("kafka")
        self.kafka = KafkaAddress.parse(f"{self.server.url}/t{uuid.uuid4().hex}")

    @property
    def address(self) -> str:
        return self.kafka.text

    def open(self, *, forgetful: bool = False, **options: Any) -> PublicationLog:
        medium = Kafka(self.kafka, remembered=0) if forgetful else Kafka(self.kafka)
        return PublicationLog(medium, **options)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.server.pause()
        yield
        self.server.resume()


MEDIA: dict[str, Callable[[pytest.FixtureRequest, Path], MediumUnderTest]] = {
    "segments": OnSegments,
    "kafka": OnKafka,
}

over_every_log = pytest.mark.parametrize("log_address", MEDIA, indirect=True)
"""Runs a test that takes `log_address` over each."""


class Gate(Disk):
    """A disk whose syncs can be held back."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()

    def sync(self, handle: int) -> None:
        assert self.opened.wait(30)
        super().sync(handle)


def lines(
    log: PublicationLog | Reader, start: int = 0, end: int | None = None, dataset: str = "reports"
) -> list[tuple[int, dict[str, Any]]]:
    """Position and JSON of a dataset's records, read as another process would."""
    if end is None:
        assert isinstance(log, PublicationLog)
        end = log.ends()[dataset]
    reader = open_reader(log.address)
    try:
        return [(at, msgspec.json.decode(body)) for at, body in reader.lines(dataset, start, end)]
    finally:
        reader.close()


def records(log: PublicationLog, start: int = 0, dataset: str = "reports") -> list[Any]:
    return [body["r"] for _, body in lines(log, start, dataset=dataset)]
