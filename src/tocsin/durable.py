"""Files and names that survive a power cut, once these functions have returned.

A name lies in its directory: whoever makes or moves one has to sync the directory too, and of a
new directory the one that it lies in. A file that is written whole is never seen in part, and
nothing is left of it if there is no room.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.errors import Unavailable

FULL = (errno.ENOSPC, errno.EDQUOT)
EVERYBODY = 0o644
OWNER = 0o600


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


def write(path: Path, data: bytes, *, mode: int = EVERYBODY) -> None:
    """Whole or not at all, in place of what is there."""
    with _aside(path, data, mode) as fresh:
        move(fresh, path)


def create(path: Path, data: bytes, *, mode: int = EVERYBODY) -> None:
    """Whole or not at all. FileExistsError: it is there already, and stays as it is."""
    with _aside(path, data, mode) as fresh:
        os.link(fresh, path)
        fresh.unlink()
        sync(path.parent)


def not_written(what: str, error: OSError, again: str = "try again") -> Unavailable:
    """What whoever wanted it written hears."""
    return Unavailable(
        f"{what} cannot be written: {error.strerror or error}",
        hint=f"free disk space and {again}" if error.errno in FULL else again,
    )


@contextmanager
def _aside(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A new file with the bytes, durable but for its name; gone if the block fails."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        yield fresh
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
