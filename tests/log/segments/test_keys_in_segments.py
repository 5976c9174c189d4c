"""Keys on a disk that breaks: known exactly when the records are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import Unavailable
from tocsin.storage.log import PublicationLog
from tocsin.storage.log.segments import keys, read_lines

from .test_disk_failures import FaultyDisk
from .test_segments import contents, log_at

THREE = [b'{"n":1}', b'{"n":2}', b'{"n":3}']


def append(log: PublicationLog, key: str | None = "5e1f") -> Any:
    return log.append("reports", THREE, key).result()


def opened(directory: Path, **options: Any) -> PublicationLog:
    log = log_at(directory, **options)
    log.open_dataset("reports")
    return log


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
        heads = (directory / "heads").read_bytes()
        start, end = log.append("reports", records, key).result()[:2]
    (directory / "heads").write_bytes(heads)  # the crash: nobody had seen the new end yet,
    last = max((directory / "reports").glob("*.log"))  # and only a part was written
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
