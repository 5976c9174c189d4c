"""`tocsin repair` shows what is damaged, gives it up when told so, and keeps all the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from log.segments.test_rot import filled, numbers, spoil
from log.segments.test_segments import log_at
from tocsin.cli import app
from tocsin.errors import Conflict, NotFound, SettingError
from tocsin.model import Channel, Dataset
from tocsin.storage.identity import Mark, write_mark
from tocsin.storage.store.gaps import Gaps
from tocsin.storage.store.store import Store

Told = list[tuple[str, int, int, str]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What subscribers hear."""
    heard: Told = []

    def records_lost(_: Gaps, dataset: str, first: int, end: int, cause: str) -> None:
        heard.append((dataset, first, end, cause))

    monkeypatch.setattr(Gaps, "records_lost", records_lost)
    return heard


@pytest.fixture
def places(tmp_path: Path) -> list[tuple[int, int]]:
    """Of the records in a log with its store."""
    Store.open(f"sqlite:///{tmp_path}/store.db").close()
    return filled(tmp_path / "log")


def repair(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["repair", "--data", str(tmp_path), *words])


def refused(tmp_path: Path, *words: str) -> Any:
    return repair(tmp_path, *words).exception


def test_a_whole_log_needs_no_repair(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    for words in ([], ["--cut"]):
        done = repair(tmp_path, *words)
        assert done.exit_code == 0
        assert "no damage: 1 segments of 1 datasets are whole" in done.output


def test_damage_is_shown_and_left_alone_until_told_otherwise(
    tmp_path: Path, places: list[tuple[int, int]], told: Told
) -> None:
    first, end = places[7]
    path = spoil(tmp_path / "log", first + 30)
    damaged = path.read_bytes()
    shown = repair(tmp_path)
    assert shown.exit_code == 1
    row = ["reports", str(first), str(end), str(end - first), "1", str(path)]
    assert "\t".join(row) in shown.output
    assert path.read_bytes() == damaged
    assert told == []

    done = repair(tmp_path, "--cut")
    assert done.exit_code == 0, done.output
    assert told == [("reports", first, end, "about 1 damaged in the log")]
    assert repair(tmp_path, "--cut").exit_code == 0
    assert len(told) == 1
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged
    with log_at(tmp_path / "log") as log:
        log.open_dataset("reports")
        assert numbers(tmp_path / "log") == [n for n in range(20) if n != 7]


def test_no_copy_is_kept_if_told_so(
    tmp_path: Path, places: list[tuple[int, int]], told: Told
) -> None:
    spoil(tmp_path / "log", places[7][0] + 30)
    assert repair(tmp_path, "--cut", "--no-copy").exit_code == 0
    assert list((tmp_path / "log" / "reports").glob("*.damaged")) == []


def test_subscribers_are_told_though_the_store_was_away_at_first(
    tmp_path: Path, places: list[tuple[int, int]], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(tmp_path / "log", places[7][0] + 30)
    with monkeypatch.context() as broken:
        broken.setattr(Gaps, "records_lost", lambda *_: 1 / 0)
        assert isinstance(refused(tmp_path, "--cut"), ZeroDivisionError)
    assert told == []
    assert repair(tmp_path, "--cut").exit_code == 0
    assert [one[:3] for one in told] == [("reports", *places[7])]


def test_a_log_in_use_or_of_another_store_is_not_repaired(
    tmp_path: Path, places: list[tuple[int, int]], told: Told
) -> None:
    path = spoil(tmp_path / "log", places[7][0] + 30)
    damaged = path.read_bytes()
    with log_at(tmp_path / "log"):
        assert isinstance(refused(tmp_path, "--cut"), Conflict)
    write_mark(tmp_path / "log", Mark("1" * 32, "sqlite:///theirs.db"))
    error = refused(tmp_path, "--cut")
    assert isinstance(error, SettingError)
    assert "sqlite:///theirs.db" in error.message
    assert path.read_bytes() == damaged
    assert told == []


def test_what_is_no_log_of_files_is_told(tmp_path: Path) -> None:
    assert isinstance(refused(tmp_path), NotFound)
    assert isinstance(refused(tmp_path, "--log", "kafka://h:1"), SettingError)
    places = filled(tmp_path / "log")
    spoil(tmp_path / "log", places[7][0] + 30)
    error = refused(tmp_path, "--cut")
    assert isinstance(error, SettingError)
    assert "no store" in error.message
    assert not (tmp_path / "store.db").exists()


def test_who_waits_for_the_dataset_is_told_what_is_lost(
    tmp_path: Path, places: list[tuple[int, int]]
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with Store.open(store) as opened:
        opened.catalog.create_dataset(Dataset("reports", ()))
        channel = Channel("all", "continuous", (), "SELECT 1", ("reports",), ("reports",))
        opened.catalog.create_channel(channel)
        subscription, _ = opened.subscriptions.subscribe("ann", "all", {}, None)
    spoil(tmp_path / "log", places[7][0] + 30)
    assert repair(tmp_path, "--cut").exit_code == 0
    with Store.open(store) as opened:
        (told,) = opened.results.read(subscription.backend.id, 0, 9, 9).results
    said = json.loads(told.payload)["_gap"]
    assert (said["dataset"], said["first"], said["end"]) == ("reports", *places[7])
