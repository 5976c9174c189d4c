"""One dataset's segments as the writer sees them: stage, commit, cut back, roll, retire, recover.

Knows no threads, queues or clocks. The lines of a request are in one segment and survive a crash
all together or not at all, and its key with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import structlog

from tocsin.protocol import log_line
from tocsin.storage.log.port import Appended, Stamped
from tocsin.storage.log.segments import damage
from tocsin.storage.log.segments.disk import Disk
from tocsin.storage.log.segments.keys import Keys
from tocsin.storage.log.segments.names import segment_name
from tocsin.storage.log.segments.reader import list_segments

_logger = structlog.get_logger(__name__)


class SegmentedDataset:
    def __init__(
        self,
        directory: Path,
        dataset: str,
        *,
        segment_bytes: int,
        disk: Disk,
        known_end: int = 0,
    ) -> None:
        """Open and recover: afterwards every line is whole and durable. Damaged if records are lost
        that were acknowledged; `known_end` was durable once."""
        self.dataset = dataset
        self.last_us = 0
        self._folder = directory / dataset
        self._segment_bytes = segment_bytes
        self._disk = disk
        self._staged: list[bytes] = []
        self._handle: int | None = None
        self._folder.mkdir(exist_ok=True)
        disk.sync_directory(directory)
        self.keys = Keys(self._folder, disk)
        segments = list_segments(directory, dataset)
        self._firsts = [first for first, _ in segments] or [0]
        self.durable_end = self.written_end = self._firsts[-1] + self._recover(known_end)

    def find(self, key: str | None) -> Appended | None:
        known = self.keys.find(key)
        return Appended(*known, again=True) if known else None

    def make_room(self) -> None:
        """Close a full segment, before anything is staged."""
        if self.durable_end - self._firsts[-1] >= self._segment_bytes:
            self._start_segment()

    def stage(self, key: str | None, lines: Sequence[Stamped]) -> Appended:
        first = self.written_end
        head = log_line.encode_head(log_line.RequestHead(len(lines), key))
        for at_us, record, extra in lines:
            whole = log_line.encode(self.written_end, at_us, record, extra, head)
            self._staged.append(whole)
            self.written_end += len(whole)
            head = b""
        if key is not None and lines:
            self.keys.stage(key, (first, self.written_end))
        return Appended(first, self.written_end)

    def commit(self) -> None:
        data = b"".join(self._staged)
        self._staged.clear()
        if data:
            self._disk.write(self._active(), data)
        self._disk.sync(self._active())
        self.durable_end = self.written_end
        self.keys.commit()

    def cut_back(self) -> None:
        """Forget all that is not durable, in the files too.

        After a failed fsync the system may have dropped the pages and forgotten the error, so the
        file is closed and the part it can still vouch for, up to `durable_end`, is made sure of
        again through a fresh handle. If that fails too, the next commit starts with it.
        """
        self._staged.clear()
        self.keys.cut_back()
        self.written_end = self.durable_end
        self._close()
        self._disk.sync_directory(self._folder)
        handle = self._disk.open(self._path(self._firsts[-1]))
        try:
            self._disk.truncate(handle, self.durable_end - self._firsts[-1])
            self._disk.sync(handle)
        except OSError:
            self._disk.close(handle)
            raise
        self._handle = handle

    @property
    def poisoned(self) -> bool:
        return self._handle is None

    def roll(self) -> None:
        """Close the current segment and start a new one, unless the current one is empty."""
        if self.durable_end > self._firsts[-1]:
            self._start_segment()

    def retire(self, below: int) -> None:
        """Delete the segments that end at or before `below`; the current one always stays."""
        removed = False
        while len(self._firsts) > 1 and self._firsts[1] <= below:
            self._disk.remove(self._path(self._firsts[0]))
            self._firsts.pop(0)
            removed = True
        if removed:
            self._disk.sync_directory(self._folder)

    def drop(self) -> None:
        self.retire(self.durable_end)
        self.keys.drop()

    def close(self) -> None:
        self._close()

    def _path(self, first: int) -> Path:
        return self._folder / segment_name(first)

    def _active(self) -> int:
        if self._handle is None:
            raise OSError("the segment is closed after a failure")
        return self._handle

    def _start_segment(self) -> None:
        # The old segment is durable before the new name exists: only the last can be torn. Its
        # keys are saved before, because from then on only the new one is searched for keys.
        self._disk.sync(self._active())
        self.keys.save()
        handle = self._disk.open(self._path(self.written_end))
        self._firsts.append(self.written_end)
        self._close()
        self._handle = handle
        self._disk.sync_directory(self._folder)

    def _close(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._disk.close(self._handle)
            self._handle = None

    def _recover(self, known_end: int) -> int:
        """Cut the torn tail of the last segment; returns its whole bytes."""
        for first, following in zip(self._firsts, self._firsts[1:], strict=False):
            if first + self._path(first).stat().st_size != following:
                self._refuse(damage.holes(self._path(first), first, following=following))
        first, last = self._firsts[-1], self._path(self._firsts[-1])
        handle = self._disk.open(last)
        try:
            size_bytes, self.last_us = _whole(last, first, self.keys)
            torn = last.stat().st_size - size_bytes
            if torn or first + size_bytes < known_end:
                self._refuse(damage.holes(last, first, known_end=known_end))
            if torn:
                _logger.warning(
                    "log.torn_tail", dataset=self.dataset, at=first + size_bytes, bytes=torn
                )
                self._disk.truncate(handle, size_bytes)
            self._disk.sync(handle)
            self._disk.sync_directory(self._folder)
        except BaseException:
            self._disk.close(handle)
            raise
        self._handle = handle
        if size_bytes == 0 and len(self._firsts) > 1:
            _, self.last_us = _whole(self._path(self._firsts[-2]), self._firsts[-2], self.keys)
        return size_bytes

    def _refuse(self, holes: list[damage.Hole]) -> None:
        if holes:
            raise damage.damaged(self.dataset, holes)


def _whole(path: Path, first: int, keys: Keys) -> tuple[int, int]:
    """How many bytes from the start are whole requests, and the time of the last line of them.
    Their keys become known. A request that has lost lines is no longer one: those that are left
    stand for themselves, and its key is forgotten, so that it is taken when it is sent again."""
    begin = position = first
    missing, key, newest = 0, None, b""
    with path.open("rb") as handle:
        for raw in handle:
            body = log_line.decode(raw, position)
            if body is None:
                break
            position += len(raw)
            if log_line.is_filler(body):
                missing, begin = 0, position
                continue
            if missing == 0:
                missing, key = log_line.decode_head(body)
            missing -= 1
            newest = body
            if missing == 0:
                if key is not None:
                    keys.stage(key, (begin, position))
                begin = position
    keys.commit()
    return begin - first, log_line.taken_us(newest) if newest else 0
