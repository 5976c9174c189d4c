"""Content in an object store, S3-compatible or whatever else fsspec speaks with.

An object store shows an object when it has the whole of it, so nothing is renamed there: bytes wait
in a local directory until their hash is known, and are then put in one go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from tocsin.model import is_attachment_id
from tocsin.storage.content.port import Kept

_TIMES = ("LastModified", "mtime", "modified", "created")  # each file system has its own word


class RemoteMedium:
    def __init__(self, files: Any, root: str, incoming: Path) -> None:
        """`files` is an fsspec file system."""
        self._files = files
        self._root = root.rstrip("/")
        self.incoming = incoming

    def info(self, id: str) -> Kept | None:
        try:
            return _kept(id, self._files.info(self._path(id)))
        except FileNotFoundError:
            return None

    def take(self, file: Path, id: str) -> None:
        there = self.info(id)
        if there is not None and there.size_bytes == file.stat().st_size:
            return  # sending it again would cost, and a file of that size is not half there
        path = self._path(id)
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.put_file(str(file), path)

    def open(self, id: str) -> AbstractContextManager[BinaryIO]:
        opened: AbstractContextManager[BinaryIO] = self._files.open(self._path(id), "rb")
        return opened

    def drop(self, id: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(id))
        self._files.invalidate_cache()

    def kept(self) -> Iterator[Kept]:
        self._files.invalidate_cache()
        for path, info in self._files.find(self._root, detail=True).items():
            name = path.rpartition("/")[2]
            if is_attachment_id(name):
                yield _kept(name, info)

    def _path(self, id: str) -> str:
        return f"{self._root}/{id[:2]}/{id[2:4]}/{id}"


def _kept(id: str, info: dict[str, Any]) -> Kept:
    told = next((info[word] for word in _TIMES if word in info), 0.0)
    at = told.timestamp() if isinstance(told, datetime) else float(told)
    return Kept(id, int(info["size"]), at)
