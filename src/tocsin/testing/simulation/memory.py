"""Where the files of simulated worlds lie: in memory, as nothing here relies on a disk."""

from __future__ import annotations

from pathlib import Path


def in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
