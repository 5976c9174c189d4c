"""What a power cut would take: names that were made or moved, and whose directory nobody synced
since; files that were moved into place, and whose bytes nobody synced since they were written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


class Disk:
    def __init__(self) -> None:
        self._names: set[Path] = set()
        self._synced: set[int] = set()  # files, by inode
        self.torn: set[Path] = set()

    @property
    def lost(self) -> set[str]:
        """Names that a cut would take, as far as they are still there."""
        return {path.name for path in self._names | self.torn if path.exists()}

    def made(self, path: Any) -> None:
        self._names.add(Path(os.path.abspath(path)))

    def moved(self, source: Any, target: Any) -> None:
        before, after = Path(os.path.abspath(source)), Path(os.path.abspath(target))
        self._names.discard(before)
        self._names.add(after)
        if after.is_file() and after.stat().st_ino not in self._synced:
            self.torn.add(after)

    def synced(self, handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        self._synced.add(os.fstat(handle).st_ino)
        self._names = {name for name in self._names if name.parent != path}


@contextmanager
def watched() -> Iterator[Disk]:
    disk = Disk()

    def after(function: Any, tell: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            result = function(*given, **named)
            tell(*given)
            return result

        return call

    with (
        mock.patch("os.fsync", after(os.fsync, disk.synced)),
        mock.patch("os.fdatasync", after(os.fdatasync, disk.synced)),
        mock.patch("os.replace", after(os.replace, disk.moved)),
        mock.patch("os.rename", after(os.rename, disk.moved)),
        mock.patch("os.link", after(os.link, lambda _, target: disk.made(target))),
        mock.patch("os.mkdir", after(os.mkdir, lambda path, *_: disk.made(path))),
    ):
        yield disk
