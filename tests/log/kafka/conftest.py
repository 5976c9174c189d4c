from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from log.kafka.topic import Topic
from log.media import OnKafka
from tocsin.storage.log import PublicationLog


@pytest.fixture
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> OnKafka:
    return OnKafka(request, tmp_path)


@pytest.fixture
def log(medium: OnKafka) -> Iterator[PublicationLog]:
    """An open log with the dataset `reports`."""
    with medium.open() as opened:
        opened.open_dataset("reports")
        yield opened


@pytest.fixture
def topic(medium: OnKafka) -> Topic:
    """The topic of the dataset `reports`, as anybody else sees it."""
    return Topic(medium.server, medium.kafka.topic("reports"))
