"""Whether the disks that a service writes to have room left."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

LEAST_BYTES = 1024 * 1024  # with less than this, hardly anything can be written


def full_disks(directories: Iterable[Path | None]) -> list[str]:
    """Those without room, each in a line. Directories that are not there yet are passed over."""
    full: dict[int, str] = {}
    for directory in directories:
        if directory is None or not directory.is_dir():
            continue
        if not _has_room(os.statvfs(directory)):
            trouble = f"the disk of {directory} is full: free space there"
            full.setdefault(directory.stat().st_dev, trouble)
    return list(full.values())


def _has_room(disk: os.statvfs_result) -> bool:
    blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    names_left = disk.f_ffree > 0 or disk.f_files == 0  # some file systems count none
    return blocks * disk.f_frsize >= LEAST_BYTES and names_left
