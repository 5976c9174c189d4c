"""Every medium of the content store, for the one contract that all of them keep."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tocsin.storage.content import ContentStore
from tocsin.storage.content.directory import DirectoryMedium
from tocsin.storage.content.remote import RemoteMedium


class FilesInMemory:
    """The few calls of fsspec's file systems that we make, as its documentation has them."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, float]] = {}

    def info(self, path: str) -> dict[str, Any]:
        if path not in self.files:
            raise FileNotFoundError(path)
        data, at = self.files[path]
        return {"name": path, "size": len(data), "type": "file", "mtime": at}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    def put_file(self, local: str, remote: str) -> None:
        self.files[remote] = Path(local).read_bytes(), time.time()

    def open(self, path: str, mode: str) -> BinaryIO:
        self.info(path)
        return io.BytesIO(self.files[path][0])

    def rm_file(self, path: str) -> None:
        self.info(path)
        del self.files[path]

    def invalidate_cache(self) -> None:
        pass

    def find(self, root: str, detail: bool) -> dict[str, dict[str, Any]]:
        return {path: self.info(path) for path in self.files if path.startswith(root + "/")}

    def pipe_file(self, path: str, data: bytes) -> None:
        self.files[path] = data, time.time()


class Place:
    """A content store, and how to damage what is in it."""

    def __init__(self, store: ContentStore, spoil: Callable[[str, bytes], None]) -> None:
        self.store = store
        self.spoil = spoil

    @property
    def aside(self) -> list[Path]:
        return list(self.store.incoming.iterdir())


def _directory(tmp_path: Path) -> Place:
    root = tmp_path / "content"
    root.mkdir()

    def spoil(id: str, data: bytes) -> None:
        (root / id[:2] / id[2:4] / id).write_bytes(data)

    return Place(ContentStore(DirectoryMedium(root)), spoil)


def _remote(files: Any, tmp_path: Path) -> Place:
    def spoil(id: str, data: bytes) -> None:
        files.pipe_file(f"/bucket/{id[:2]}/{id[2:4]}/{id}", data)

    return Place(ContentStore(RemoteMedium(files, "/bucket", tmp_path / "incoming")), spoil)


def _fsspec(tmp_path: Path) -> Place:
    memory = pytest.importorskip("fsspec.implementations.memory")
    files = memory.MemoryFileSystem()
    files.store.clear()
    return _remote(files, tmp_path)


PLACES: dict[str, Callable[[Path], Place]] = {
    "directory": _directory,
    "object store": lambda tmp_path: _remote(FilesInMemory(), tmp_path),
    "fsspec": _fsspec,
}
