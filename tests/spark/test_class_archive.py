"""The file of Spark's classes: used where it fits, and no hindrance where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from real_servers import skip_or_fail
from tocsin.spark import class_archive
from tocsin.spark.class_archive import archive_file, archive_options

from .test_session import make_java


def test_without_the_file_java_is_told_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(class_archive, "jar_directory", lambda: tmp_path)
    assert archive_options() == ""
    file = archive_file()
    assert file is not None
    file.touch()
    assert f"-XX:SharedArchiveFile={file}" in archive_options()


def test_each_java_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = set()
    for version in ("17.0.1", "17.0.2"):
        monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / version, version)))
        found.add(archive_file())
    assert len(found) == 2


@pytest.mark.spark
def test_spark_starts_from_the_file_that_set_up_has_made(spark: SparkSession) -> None:
    file = archive_file()
    if file is None or not file.is_file():
        skip_or_fail("Spark's classes were not kept: call make setup")
    gateway = SparkContext._gateway
    assert gateway is not None
    assert str(file) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
