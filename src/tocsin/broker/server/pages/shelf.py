"""Where a broker's pages lie: files of a directory, or memory. Decides nothing.

A page comes as a `Body` that grows aside and can be read while it does; put on the shelf, it is
whole. Files are written aside and renamed, so that a crash leaves no half page under its name; what
lies there at the next start is checked against its hash all the same. Files are read by blocks, and
each is checked before a byte of it leaves.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from pathlib import Path
from typing import Protocol

import structlog

from tocsin.broker.server.pages.sums import BLOCK_BYTES, Sums
from tocsin.errors import SettingError, Unavailable
from tocsin.model import is_attachment_id

log = structlog.get_logger()

_CHECKED_AT_ONCE_BYTES = 1024 * 1024
_COMING_BYTES = 256 * 1024  # of a page that comes, so much lies in memory; more on disk


class Body(Protocol):
    """The bytes of one page."""

    def read(self, start: int, most_bytes: int) -> bytes:
        """Some of those there are; Unavailable if they are not what they were."""

    def close(self) -> None:
        """It is read no more. What is not on a shelf is gone then."""


class Growing(Body, Protocol):
    """The bytes of a page that comes, as far as they are here."""

    def reserve(self, size_bytes: int) -> None:
        """Have room for so many; OSError if there is none."""

    def write(self, data: bytes) -> None: ...


class Shelf(Protocol):
    def new(self) -> Growing: ...
    def put(self, page: str, body: Growing) -> None:
        """The body is whole."""

    def open(self, page: str, start: int) -> Body | None:
        """For one reader, who begins there; None: it is not there, or is not what it was."""

    def drop(self, page: str) -> None:
        """Those who read it go on."""

    def whole_pages(self) -> list[tuple[str, int]]:
        """Pages that an earlier process left, the oldest first, and their sizes."""


class _File:
    def __init__(self, handle: int, sums: Sums, path: Path | None = None) -> None:
        self._handle = handle
        self.sums = sums
        self.path = path  # while it lies aside
        self._block = b""  # the last that was read, and where it begins
        self._begin = 0

    def reserve(self, size_bytes: int) -> None:
        if size_bytes:
            os.posix_fallocate(self._handle, 0, size_bytes)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]
        self.sums.add(data)

    def read(self, start: int, most_bytes: int) -> bytes:
        if not self._begin <= start < self._begin + len(self._block):
            begin = start - start % BLOCK_BYTES
            self._block, self._begin = self._checked(begin), begin
        at = start - self._begin
        return self._block[at : at + most_bytes]

    def _checked(self, begin: int) -> bytes:
        try:
            block = os.pread(self._handle, self._there_bytes(begin), begin)
        except OSError:
            block = b""
        if not self.sums.fit(begin, block):
            raise Unavailable("a page is damaged, and dropped", hint="ask again")
        return block

    def _there_bytes(self, begin: int) -> int:
        """Behind what has come of a page lies what was reserved for it."""
        coming = self.path is not None
        return min(BLOCK_BYTES, self.sums.size_bytes - begin) if coming else BLOCK_BYTES

    def close(self) -> None:
        os.close(self._handle)
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class DirectoryShelf:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._sums: dict[str, Sums] = {}  # of each page
        self._aside = root / "incoming"
        try:
            self._aside.mkdir(parents=True, exist_ok=True)
            for left in self._aside.iterdir():  # by a crash
                left.unlink(missing_ok=True)
            tempfile.TemporaryFile(dir=self._aside).close()
        except OSError as error:
            raise SettingError(
                f"cannot keep pages in {root}: {error.strerror}", field="page_cache"
            ) from None

    def new(self) -> _File:
        path = self._aside / f"{uuid.uuid4().hex}.part"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        return _File(handle, Sums(), path)

    def put(self, page: str, body: Growing) -> None:
        assert isinstance(body, _File)
        assert body.path is not None
        target = self._path(page)
        target.parent.mkdir(exist_ok=True)
        os.replace(body.path, target)
        body.path = None
        self._sums[page] = body.sums

    def open(self, page: str, start: int) -> Body | None:
        try:
            file = _File(os.open(self._path(page), os.O_RDONLY | os.O_CLOEXEC), self._sums[page])
        except OSError:
            return None
        try:
            file.read(start, 1)
        except Unavailable:
            file.close()
            return None
        return file

    def drop(self, page: str) -> None:
        self._path(page).unlink(missing_ok=True)
        self._sums.pop(page, None)

    def whole_pages(self) -> list[tuple[str, int]]:
        files = [path for path in self._root.glob("??/*") if is_attachment_id(path.name)]
        whole = []
        for path in sorted(files, key=lambda path: path.stat().st_mtime):
            sums = _sums_of(path)
            if sums is not None:
                self._sums[path.name] = sums
                whole.append((path.name, sums.size_bytes))
            else:
                log.warning("a page is damaged, and dropped", page=path.name)
                path.unlink()
        return whole

    def _path(self, page: str) -> Path:
        return self._root / page[:2] / page


def _sums_of(path: Path) -> Sums | None:
    """None: it is not what it is called."""
    digest, sums = hashlib.sha256(), Sums()
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHECKED_AT_ONCE_BYTES):
                digest.update(piece)
                sums.add(piece)
    except OSError:
        return None
    return sums if digest.hexdigest() == path.name else None


class _Memory:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, start: int, most_bytes: int) -> bytes:
        return self._data[start : start + most_bytes]

    def close(self) -> None:
        pass


class _Spool:
    """On its way to memory. The budget counts what is kept, and not what many large pages take that
    come at once: these wait on disk."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_COMING_BYTES)  # noqa: SIM115 (see close)
        self._come_bytes = 0

    def reserve(self, size_bytes: int) -> None:
        if size_bytes > _COMING_BYTES:
            self._file.rollover()
            os.posix_fallocate(self._file.fileno(), 0, size_bytes)

    def write(self, data: bytes) -> None:
        self._file.seek(self._come_bytes)
        self._file.write(data)
        self._come_bytes += len(data)

    def read(self, start: int, most_bytes: int) -> bytes:
        self._file.seek(start)
        return self._file.read(most_bytes)

    def close(self) -> None:
        self._file.close()


class MemoryShelf:
    def __init__(self) -> None:
        self._pages: dict[str, bytes] = {}

    def new(self) -> _Spool:
        return _Spool()

    def put(self, page: str, body: Growing) -> None:
        self._pages[page] = body.read(0, -1)

    def open(self, page: str, start: int) -> Body | None:
        data = self._pages.get(page)
        return None if data is None else _Memory(data)

    def drop(self, page: str) -> None:
        self._pages.pop(page, None)

    def whole_pages(self) -> list[tuple[str, int]]:
        return []


def make_shelf(directory: str, broker: str) -> Shelf:
    """Brokers may be given one directory; each has its own part of it."""
    return DirectoryShelf(Path(directory).absolute() / broker) if directory else MemoryShelf()
