"""Files and names that survive a power cut, once these functions have returned.

A name lies in its directory: whoever makes or moves one has to sync the directory too, and of a
new directory the one that it lies in.
"""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """The bytes of a file, or the names in a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """With those that it lies in, as far as they are missing."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


def move(source: Path, target: Path) -> None:
    """Replaces what is at the target. The bytes of the source are synced by whoever wrote them."""
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def write(path: Path, data: bytes) -> None:
    """Whole or not at all, in place of what is there."""
    fresh = path.with_name(f"{path.name}.writing")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    move(fresh, path)
