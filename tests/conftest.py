"""What all tests share: one small Spark session for the whole run, started only when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tocsin.pipeline.session import build_session
    from tocsin.settings import SHORT_LIVED_JAVA, Settings

    data = tmp_path_factory.mktemp("spark")
    settings = Settings(data=data, master="local[2]", java_options=SHORT_LIVED_JAVA)
    session = build_session(settings, app_name="tocsin-tests")
    yield session
    session.stop()
