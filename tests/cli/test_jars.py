"""Before the first start Spark's jars are fetched; where that fails, it depends who needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.cache_directory import VARIABLE
from tocsin.cli.jars import ensure_jars
from tocsin.errors import Unavailable
from tocsin.settings import Settings
from tocsin.spark import jars

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def _nothing_here_and_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9")


def test_a_system_of_files_goes_on_without_jars_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_jars(Settings())
    printed = capsys.readouterr().err
    assert f"fetching Spark's jars into {tmp_path / 'jars'}" in printed
    assert "going on without them" in printed


def test_one_with_a_database_server_stops_and_says_what_to_do() -> None:
    with pytest.raises(Unavailable, match="could not be fetched") as wrong:
        ensure_jars(Settings(store="postgresql://me@127.0.0.1/tocsin"))
    assert wrong.value.hint is not None
    assert "DEFAULT_ARTIFACT_REPOSITORY" in wrong.value.hint


def test_jars_that_are_there_are_not_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    jars.SPARK.directory.mkdir(parents=True)
    for coordinate in jars.SPARK.coordinates:
        _, artifact, version = coordinate.split(":")
        (jars.SPARK.directory / f"{artifact}-{version}.jar").touch()
    ensure_jars(Settings(log="kafka://127.0.0.1:9092/tocsin"))
    assert capsys.readouterr().err == ""
