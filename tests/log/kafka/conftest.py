from __future__ import annotations

from pathlib import Path

import pytest

from log.kafka.topic import Topic
from log.media import OnKafka


@pytest.fixture
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> OnKafka:
    return OnKafka(request, tmp_path)


@pytest.fixture
def topic(medium: OnKafka) -> Topic:
    """The topic of the dataset `reports`, as anybody else sees it."""
    return Topic(medium.server, medium.kafka.topic("reports"))
