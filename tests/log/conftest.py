"""One suite for every medium: `medium` is each of them in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from log.media import MEDIA, MediumUnderTest
from tocsin.storage.log import PublicationLog, Reader, open_reader


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> MediumUnderTest:
    return MEDIA[request.param](request, tmp_path)


@pytest.fixture
def log(medium: MediumUnderTest) -> Iterator[PublicationLog]:
    """An open log with the dataset `reports`."""
    with medium.open() as opened:
        opened.open_dataset("reports")
        yield opened


@pytest.fixture
def reader(medium: MediumUnderTest) -> Iterator[Reader]:
    opened = open_reader(medium.address)
    yield opened
    opened.close()
