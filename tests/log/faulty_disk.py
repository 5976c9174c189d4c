"""A disk that breaks on command, and the plain view of what a log holds."""

from __future__ import annotations

import errno
import os
import threading

from tocsin.storage.log.disk import Disk


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
