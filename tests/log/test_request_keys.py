"""A request that is sent again under its key is in the log once, whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import InvalidInput, Unavailable
from tocsin.storage.log import PublicationLog
from tocsin.storage.log.segments import keys, read_lines

from .test_log_failures import FaultyDisk, contents, log_at

THREE = [b'{"n":1}', b'{"n":2}', b'{"n":3}']


def append(log: PublicationLog, key: str | None = "5e1f") -> Any:
    return log.append("reports", THREE, key).result()


def opened(directory: Path, **options: Any) -> PublicationLog:
    log = log_at(directory, **options)
    log.open_dataset("reports")
    return log


def nothing(_: PublicationLog) -> None:
    pass


def roll(log: PublicationLog) -> None:
    log.roll("reports")


def retire_all(log: PublicationLog) -> None:
    log.roll("reports")
    log.retire("reports", log.ends()["reports"])


def retire_behind_others(log: PublicationLog) -> None:
    for n in range(5):
        log.append("reports", [b"{}"], f"other-{n}").result()
        retire_all(log)


MEANWHILE = [nothing, roll, retire_all, retire_behind_others]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_repeated_key_is_answered_as_before_and_appends_nothing(
    tmp_path: Path, meanwhile: Callable[[PublicationLog], None], restart: bool
) -> None:
    log = opened(tmp_path)
    first = append(log)
    meanwhile(log)
    if restart:
        log.close()
        log = opened(tmp_path)
    end = log.ends()["reports"]
    again = append(log)
    assert (first.again, again.again) == (False, True)
    assert again[:2] == first[:2]
    assert log.ends()["reports"] == end
    log.close()


def test_without_a_key_or_with_another_every_call_appends(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for key in ("a", "b", None, None):
            assert not append(log, key).again
        assert len(contents(tmp_path)) == 12
        with pytest.raises(InvalidInput):
            log.append("reports", THREE, 'a"')


def test_repeats_that_wait_for_the_same_commit_are_taken_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk=disk) as log:
        disk.sync_entered.clear()
        disk.sync_gate = threading.Event()
        log.append("reports", [b"{}"])
        assert disk.sync_entered.wait(30)
        waiting = [log.append("reports", THREE, "5e1f") for _ in range(3)]
        disk.sync_gate.set()
        assert [future.result().again for future in waiting] == [False, True, True]
        assert len(contents(tmp_path)) == 4


def test_a_key_whose_records_were_not_kept_is_not_known(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk=disk) as log:
        disk.sync_errors = 1
        with pytest.raises(Unavailable):
            append(log)
        assert contents(tmp_path) == []
        assert not append(log).again
        assert len(contents(tmp_path)) == 3


def test_keys_that_cannot_be_saved_fail_the_publisher_and_lose_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk=disk, segment_bytes=10) as log:
        first = append(log)
        disk.budget_bytes = 0
        with pytest.raises(Unavailable):
            append(log, "other")  # closes the segment, so the keys are due
        disk.budget_bytes = None
        assert not append(log, "other").again
        assert append(log)[:2] == first[:2]
    with opened(tmp_path) as log:
        assert append(log).again
        assert append(log, "other").again
        assert len(contents(tmp_path)) == 6


def test_a_dropped_dataset_forgets_its_keys(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        append(log)
        log.roll("reports")
        log.create_dataset("reports")
        assert not append(log).again
    with opened(tmp_path) as log:
        log.drop_dataset("reports")
        log.open_dataset("reports")
        assert not append(log).again


def test_the_oldest_keys_are_forgotten_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MOST", 3)
    with opened(tmp_path) as log:
        for n in range(4):
            append(log, f"key-{n}")
    with opened(tmp_path) as log:
        assert [append(log, f"key-{n}").again for n in (3, 2, 1)] == [True] * 3
        assert not append(log, "key-0").again


@settings(max_examples=150, deadline=None)
@given(
    before=st.integers(0, 3),
    count=st.integers(1, 5),
    kept=st.integers(0, 400),
    segment_bytes=st.sampled_from([1, 150, 10_000]),
    keyed=st.booleans(),
)
def test_a_request_survives_a_crash_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory,
    before: int,
    count: int,
    kept: int,
    segment_bytes: int,
    keyed: bool,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    records = [b'{"n":%d}' % n for n in range(count)]
    key = "5e1f" if keyed else None
    with opened(directory, segment_bytes=segment_bytes) as log:
        for n in range(before):
            log.append("reports", [b"{}"] * (n + 1), f"earlier-{n}").result()
        start, end = log.append("reports", records, key).result()[:2]
    last = max((directory / "reports").glob("*.log"))  # the crash: only a part was written
    with last.open("r+b") as handle:
        handle.truncate(last.stat().st_size - max(0, end - start - kept))
    with opened(directory, segment_bytes=segment_bytes) as log:
        whole = kept >= end - start
        assert log.ends()["reports"] == (end if whole else start)
        repeated = log.append("reports", records, key).result()
        assert repeated.again == (whole and keyed)
        for n in range(before):
            assert log.append("reports", [b"{}"] * (n + 1), f"earlier-{n}").result().again
        there = list(read_lines(directory, "reports", start, log.ends()["reports"]))
        assert len(there) == count * (2 if whole and not keyed else 1)
