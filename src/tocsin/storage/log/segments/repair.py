"""Give up what is damaged in a log, and nothing else: the place of lost records is filled to the
byte with lines that hold none, so that every whole record stays, at its position.

Only while nobody writes the log: `Repair` has its lock. Each step may be repeated after a crash.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tocsin.errors import NotFound
from tocsin.protocol import log_line
from tocsin.storage.log.segments import heads
from tocsin.storage.log.segments.damage import Hole, holes
from tocsin.storage.log.segments.disk import Disk
from tocsin.storage.log.segments.keys import Keys
from tocsin.storage.log.segments.lost import Lost, read_lost, write_lost
from tocsin.storage.log.segments.medium import lock
from tocsin.storage.log.segments.names import segment_first
from tocsin.storage.log.segments.reader import list_segments

COPY = ".damaged"

Notify = Callable[[str, int, int, str], object]
"""Takes a dataset, the first position and the end of what is lost, and the cause."""


class Repair:
    """Of the log in a directory. Use as a context manager."""

    def __init__(self, directory: Path, *, disk: Disk | None = None) -> None:
        if not directory.is_dir():
            raise NotFound(
                f"there is no publication log in {directory}",
                field="data",
                hint="name the data directory of a cluster: --data DIRECTORY",
            )
        self._directory = directory
        self._disk = disk or Disk()
        self._lock = lock(directory)
        known = heads.read_once(directory)
        self._known_ends = known.ends | known.unopened if known is not None else {}

    @property
    def datasets(self) -> list[str]:
        names = sorted(folder.name for folder in self._directory.iterdir() if folder.is_dir())
        return [name for name in names if list_segments(self._directory, name)]

    def look(self, dataset: str) -> Iterator[list[Hole]]:
        """What is damaged, segment by segment: every line is read."""
        segments = list_segments(self._directory, dataset)
        followings = [first for first, _ in segments[1:]] + [None]
        known_end = self._known_ends.get(dataset, 0)
        for (first, path), following in zip(segments, followings, strict=True):
            yield holes(path, first, following=following, known_end=known_end)

    def mend(self, dataset: str, holes: Sequence[Hole], *, copy: bool = True) -> None:
        """Fill the holes. Before that, note in the file `lost` what is lost."""
        holes = [self._widened(hole) for hole in holes]
        lost = read_lost(self._directory, dataset)
        noted = {(loss.first, loss.end) for loss in lost}
        new = [hole for hole in holes if hole.end > hole.first]
        lost += [
            Lost(hole.first, hole.end, hole.records, time.time())
            for hole in new
            if (hole.first, hole.end) not in noted
        ]
        write_lost(self._directory, dataset, lost)
        Keys(self._directory / dataset, self._disk).forget([(hole.first, hole.end) for hole in new])
        by_path: dict[Path, list[Hole]] = defaultdict(list)
        for hole in holes:
            by_path[hole.path].append(hole)
        for path, here in by_path.items():
            if copy:
                _copy(path)
            self._fill(path, here)

    def unreported(self, dataset: str) -> list[Lost]:
        """Losses that subscribers have not heard of."""
        return [loss for loss in read_lost(self._directory, dataset) if not loss.reported]

    def report(self, dataset: str, notify: Notify) -> None:
        """Notify whoever waits for these records that they will not come."""
        for loss in self.unreported(dataset):
            notify(dataset, loss.first, loss.end, f"about {loss.records} damaged in the log")
            known = read_lost(self._directory, dataset)
            known[known.index(loss)] = msgspec.structs.replace(loss, reported=True)
            write_lost(self._directory, dataset, known)

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Repair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _widened(self, hole: Hole) -> Hole:
        """By the line behind, if the place is too small to be filled."""
        if log_line.encode_fillers(hole.first, hole.end - hole.first, hole.records) is not None:
            return hole
        first = segment_first(hole.path.name)
        assert first is not None
        newline = hole.path.read_bytes().find(b"\n", hole.end - first)
        assert newline >= 0, "a place without a line behind it ends where a line ended"
        return hole._replace(end=first + newline + 1, records=hole.records + 1)

    def _fill(self, path: Path, holes: Sequence[Hole]) -> None:
        first = segment_first(path.name)
        assert first is not None
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            for hole in holes:
                if hole.end == hole.first:
                    self._disk.truncate(handle, hole.first - first)
                    continue
                filled = log_line.encode_fillers(hole.first, hole.end - hole.first, hole.records)
                assert filled is not None
                os.lseek(handle, hole.first - first, os.SEEK_SET)
                self._disk.write(handle, filled)
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)
        self._disk.sync_directory(path.parent)


def _copy(path: Path) -> None:
    """Beside it, under a name that no earlier copy has."""
    number, target = 1, path.with_name(path.name + COPY)
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}{COPY}-{number}")
    shutil.copy2(path, target)
