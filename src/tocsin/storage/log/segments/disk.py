"""The few file operations the log's durability rests on, in one place so that tests can break them.

Knows nothing of records or segments. Every method raises OSError as the system reports it.
"""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    def open(self, path: Path, *, append: bool = True) -> int:
        """Open for appending, or for writing in place; the file is created if it is missing."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else 0)
        return os.open(path, flags, 0o644)

    def close(self, handle: int) -> None:
        os.close(handle)

    def write(self, handle: int, data: bytes) -> None:
        """Write all of `data` or raise; a part of it may then be in the file."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def overwrite(self, handle: int, data: bytes) -> None:
        """Put `data` at the beginning of a file that was opened for writing in place."""
        os.pwrite(handle, data, 0)

    def sync(self, handle: int) -> None:
        """Return when the file's bytes and size survive a power cut."""
        os.fdatasync(handle)

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's names survive a power cut."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def truncate(self, handle: int, size_bytes: int) -> None:
        os.ftruncate(handle, size_bytes)

    def replace(self, path: Path, target: Path) -> None:
        os.replace(path, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
