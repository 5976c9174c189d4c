"""Segments on a disk that breaks: nothing is acknowledged that is not durable."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from log.segments.test_segments import contents, log_at
from tocsin.errors import Unavailable, Unconfirmed
from tocsin.storage.log.segments.disk import Disk


class FaultyDisk(Disk):
    """Counts syncs; fails writes beyond a byte budget and syncs on demand; can hold a sync back."""

    def __init__(self) -> None:
        self.syncs = 0
        self.budget_bytes: int | None = None
        self.sync_errors = 0
        self.truncate_errors = 0
        self.sync_gate: threading.Event | None = None
        self.sync_entered = threading.Event()

    def write(self, handle: int, data: bytes) -> None:
        if self.budget_bytes is not None and len(data) > self.budget_bytes:
            os.write(handle, data[: self.budget_bytes])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(handle, data)

    def sync(self, handle: int) -> None:
        self.syncs += 1
        self.sync_entered.set()
        if self.sync_gate is not None:
            assert self.sync_gate.wait(30)
        if self.sync_errors:
            self.sync_errors -= 1
            raise OSError(errno.EIO, "Input/output error")
        super().sync(handle)

    def truncate(self, handle: int, size_bytes: int) -> None:
        if self.truncate_errors:
            self.truncate_errors -= 1
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(handle, size_bytes)


def test_publishers_that_wait_share_one_fsync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with log_at(tmp_path, disk=disk, segment_bytes=1 << 20) as log:
        log.open_dataset("reports")
        disk.sync_entered.clear()
        disk.sync_gate = threading.Event()
        first = log.append("reports", [b"{}"])
        assert disk.sync_entered.wait(30)
        before = disk.syncs
        waiting = [log.append("reports", [b"{}"]) for _ in range(100)]
        assert not first.done()
        disk.sync_gate.set()
        ends = [future.result().end for future in waiting]
        assert disk.syncs == before + 1
        assert ends == sorted(set(ends))


def test_a_full_disk_fails_the_publisher_and_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with log_at(tmp_path, disk=disk) as log:
        log.open_dataset("reports")
        log.append("reports", [b'{"n":1}']).result()
        disk.budget_bytes = 20
        with pytest.raises(Unavailable, match="space") as refusal:
            log.append("reports", [b'{"n":2}'] * 20).result()
        assert not isinstance(refusal.value, Unconfirmed)
        disk.budget_bytes = None
        assert contents(tmp_path) == [{"n": 1}]
        log.append("reports", [b'{"n":3}']).result()
        assert contents(tmp_path) == [{"n": 1}, {"n": 3}]
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert contents(tmp_path) == [{"n": 1}, {"n": 3}]


@pytest.mark.parametrize("count", [1, 20])
def test_a_failed_fsync_is_never_acknowledged_and_the_log_recovers(
    tmp_path: Path, count: int
) -> None:
    disk = FaultyDisk()
    with log_at(tmp_path, disk=disk) as log:
        log.open_dataset("reports")
        log.append("reports", [b'{"n":1}']).result()
        disk.sync_errors = 1
        with pytest.raises(Unavailable):
            log.append("reports", [b'{"n":2}'] * count).result()
        assert contents(tmp_path) == [{"n": 1}]
        disk.sync_errors, disk.truncate_errors = 1, 1  # the repair fails as well
        with pytest.raises(Unconfirmed):  # a crash now, and it may be found again
            log.append("reports", [b'{"n":3}'] * count).result()
        disk.truncate_errors = 1
        with pytest.raises(Unavailable) as refusal:
            log.append("reports", [b'{"n":4}']).result()
        assert not isinstance(refusal.value, Unconfirmed)
        log.append("reports", [b'{"n":5}']).result()
        assert contents(tmp_path) == [{"n": 1}, {"n": 5}]
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert contents(tmp_path) == [{"n": 1}, {"n": 5}]


def test_one_datasets_failure_does_not_fail_another(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with log_at(tmp_path, disk=disk) as log:
        log.open_dataset("reports")
        log.open_dataset("users")
        disk.budget_bytes = 100
        big = log.append("reports", [b'{"n":2}'] * 20)
        small = log.append("users", [b"{}"])
        assert small.result().first == 0
        with pytest.raises(Unavailable):
            big.result()


def test_a_cancelled_publication_leaves_the_writer_alive(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with log_at(tmp_path, disk=disk) as log:
        log.open_dataset("reports")
        disk.sync_entered.clear()
        disk.sync_gate = threading.Event()
        log.append("reports", [b'{"n":1}'])
        assert disk.sync_entered.wait(30)
        waiting: Future[Any] = log.append("reports", [b'{"n":2}'])
        assert waiting.cancel()
        disk.sync_gate.set()
        log.append("reports", [b'{"n":3}']).result()
        assert contents(tmp_path) == [{"n": 1}, {"n": 3}]


def test_a_log_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    class FullDisk(Disk):
        def open(self, path: Path, *, append: bool = True) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="space"):
        log_at(tmp_path, disk=FullDisk())
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
