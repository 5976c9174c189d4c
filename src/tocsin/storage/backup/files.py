"""Files of a backup: written aside, made durable and renamed, and known by their hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tocsin import durable
from tocsin.errors import Damaged
from tocsin.protocol.backup import StoredFile

_PIECE_BYTES = 1024 * 1024


def pieces(path: Path, size_bytes: int | None = None) -> Iterator[bytes]:
    """The bytes of a file, or the first of them."""
    left = path.stat().st_size if size_bytes is None else size_bytes
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(_PIECE_BYTES, left))):
            left -= len(piece)
            yield piece


def write(path: Path, data: Iterable[bytes], *, mode: int = 0o644) -> tuple[int, str]:
    """Whole or not at all; how many bytes, and their SHA-256."""
    durable.make_directory(path.parent)
    fresh = path.with_name(f"{path.name}.writing")
    digest, size_bytes = hashlib.sha256(), 0
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        for piece in data:
            file.write(piece)
            digest.update(piece)
            size_bytes += len(piece)
        file.flush()
        os.fsync(file.fileno())
    durable.move(fresh, path)
    return size_bytes, digest.hexdigest()


def described(root: Path, path: str) -> StoredFile:
    """A file that is there."""
    digest, size_bytes = hashlib.sha256(), 0
    for piece in pieces(root / path):
        digest.update(piece)
        size_bytes += len(piece)
    return StoredFile(path, size_bytes, digest.hexdigest())


def sum_of(parts: Iterable[StoredFile]) -> str:
    """One hash for several files, whatever they are called."""
    digest = hashlib.sha256()
    for file in parts:
        digest.update(file.sha256.encode())
    return digest.hexdigest()


def copy(root: Path, file: StoredFile, target: Path, *, mode: int = 0o644) -> None:
    """Out of a backup; Damaged if it is not what was put in."""
    wanted = file.size_bytes, file.sha256
    if target.exists():
        there = described(target.parent, target.name)
        if (there.size_bytes, there.sha256) == wanted:
            return
    try:
        written = write(target, pieces(root / file.path), mode=mode)
    except FileNotFoundError:
        raise damaged(root, file.path, "it is missing") from None
    if written != wanted:
        target.unlink()
        raise damaged(root, file.path, "it is not what was written")


def check(root: Path, file: StoredFile) -> None:
    """Damaged if the file is not what the manifest says."""
    try:
        there = described(root, file.path)
    except FileNotFoundError:
        raise damaged(root, file.path, "it is missing") from None
    if there != file:
        raise damaged(root, file.path, "it is not what was written")


def damaged(root: Path, path: str, why: str) -> Damaged:
    return Damaged(
        f"the backup in {root} is damaged: {path}: {why}",
        hint="bring that file back from another copy of this backup, or use another backup",
    )


def keep_only(folder: Path, known: set[Path]) -> None:
    """Delete what an attempt that was interrupted left, and what is empty then."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in known:
            path.unlink()
