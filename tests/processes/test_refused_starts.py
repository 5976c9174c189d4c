"""A cluster's process that must not start: it says why in words, ends as for wrong settings, and
leaves every file as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.test_identity import files, sqlite, start
from log.segments.test_rot import spoil
from log.segments.test_segments import log_at
from processes.test_cluster_and_its_store import refusal

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def refused(data: Path, store: str, command: str = "cluster") -> str:
    before = files(data / "log", data / "datasets")
    output = refusal(command, store, data)
    assert files(data / "log", data / "datasets") == before
    return output


@pytest.mark.parametrize("command", ["cluster", "up"])
def test_another_store_on_the_same_directory(tmp_path: Path, command: str) -> None:
    ours, theirs = sqlite(tmp_path / "a.db"), sqlite(tmp_path / "b.db")
    start(tmp_path / "data", ours)
    output = refused(tmp_path / "data", theirs, command)
    assert f"belongs to {ours}" in output
    assert theirs in output


def test_a_damaged_log(tmp_path: Path) -> None:
    data, ours = tmp_path / "data", sqlite(tmp_path / "a.db")
    start(data, ours)
    with log_at(data / "log") as log:  # the newest segment is looked at by a start
        log.open_dataset("reports")
        spoil(data / "log", log.append("reports", [b'{"key":"c"}']).result().first + 30)
    output = refused(data, ours)
    assert "the log of dataset reports is damaged: about 1 record in" in output
    assert "tocsin repair" in output
