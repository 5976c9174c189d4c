"""Content in an object store, S3-compatible or what else fsspec speaks with.

An object store shows an object when it has the whole of it, so nothing is renamed there: bytes wait
in a local directory until their hash is known, and are then put in one go. They are fetched by
ranges, as far as somebody reads. Whatever fsspec and those below it raise becomes ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tocsin.errors import Unavailable, is_bug
from tocsin.model import is_attachment_id
from tocsin.storage import identity
from tocsin.storage.content.port import PIECE_BYTES, Kept
from tocsin.storage.identity import Mark

FETCH_BYTES = 4 * 1024 * 1024
_TIMES = ("LastModified", "last_modified", "mtime", "created")  # each file system has its own word


class RemoteMedium:
    def __init__(
        self,
        files: Any,
        root: str,
        incoming: Path,
        *,
        shown: str,
        put_options: dict[str, Any] | None = None,
    ) -> None:
        """`files` is an fsspec file system that remembers no listings; `shown` is how people know
        the place."""
        self._files = files
        self._root = root.rstrip("/")
        self.shown = shown
        self._put_options = put_options or {}
        self.incoming = incoming

    def info(self, id: str) -> Kept | None:
        with self._reached(), suppress(FileNotFoundError):
            return _kept(id, self._files.info(self._path(id)))
        return None

    def take(self, file: Path, id: str) -> None:
        """Also what is there: it mends damage, and counts as an upload of now."""
        try:
            with self._reached():
                self._files.put_file(str(file), self._path(id), **self._put_options)
        except FileNotFoundError as error:  # of the bucket
            raise self._away(error) from None

    def read(self, id: str, start: int, stop: int) -> Iterator[bytes]:
        while start < stop:
            wanted = min(FETCH_BYTES, stop - start)
            with self._reached():
                fetched = self._files.cat_file(self._path(id), start=start, end=start + wanted)
            for at in range(0, len(fetched), PIECE_BYTES):
                yield fetched[at : at + PIECE_BYTES]
            if len(fetched) < wanted:
                return
            start += wanted

    def drop(self, id: str) -> None:
        with self._reached(), suppress(FileNotFoundError):
            self._files.rm_file(self._path(id))

    def mark(self) -> Mark | None:
        with self._reached(), suppress(FileNotFoundError):
            return Mark.decode(self._files.cat_file(f"{self._root}/{identity.NAME}"))
        return None

    def put_mark(self, mark: Mark) -> None:
        try:
            with self._reached():
                self._files.pipe_file(f"{self._root}/{identity.NAME}", mark.encode())
        except FileNotFoundError as error:  # of the bucket
            raise self._away(error) from None

    def kept(self) -> Iterator[Kept]:
        try:
            with self._reached():
                files = self._files.find(self._root, detail=True)
        except FileNotFoundError as error:
            raise self._away(error) from None
        for path, info in files.items():
            name = path.rpartition("/")[2]
            if is_attachment_id(name):
                yield _kept(name, info)

    def _path(self, id: str) -> str:
        return f"{self._root}/{id[:2]}/{id[2:4]}/{id}"

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """What was not found is the caller's to understand."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # of libraries that only the address chooses
            if is_bug(error):
                raise
            raise self._away(error) from None

    def _away(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"attachments at {self.shown} cannot be reached: {why(error)}",
            field="attachments",
            hint="try again when that is mended",
        )


def why(error: Exception) -> str:
    """Its first line, or at least its kind."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _kept(id: str, info: dict[str, Any]) -> Kept:
    # Without a time it never grows old, and is never collected.
    modified = next((info[word] for word in _TIMES if info.get(word)), math.inf)
    at = modified.timestamp() if isinstance(modified, datetime) else float(modified)
    return Kept(id, int(info["size"]), at)
