"""A file system of a test's own, small enough to be filled to the last byte."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_servers import skip_or_fail


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode != 0:
        skip_or_fail("a file system that can be filled takes the right to mount one")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    """To the last byte. What others let go of meanwhile is taken by the next call."""
    with _ballast(disk).open("ab") as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), b"\0" * size)


def make_room(disk: Path) -> None:
    _ballast(disk).unlink()


def _ballast(disk: Path) -> Path:
    return disk / "ballast"
