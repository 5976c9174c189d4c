"""A disk that loses what was not synced: the publication log's files are real, and kept beside what
a power cut would leave of them.

What a file was at its last sync is sure. Of what was done to it since, a cut leaves some of the
first steps, the last of them torn, and now and then a sector of it missing. A name that was made,
moved or removed is sure when its directory was synced. After a failed sync the bytes in question
look as if they were there, and never reach the disk: so do real systems.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tocsin.storage.log.segments.disk import Disk

SECTOR = 512
WRITTEN_BACK = 6


class Crashed(BaseException):
    """The process is no more. Nothing in it may handle this."""


@dataclass
class _File:
    sure: bytes = b""  # as of the last sync
    steps: list[Callable[[bytes], bytes]] = field(default_factory=list)  # since then
    dropped: list[tuple[int, int]] = field(default_factory=list)  # bytes that no sync will reach

    def kept(self, data: bytes) -> bytes:
        for start, end in self.dropped:
            data = data[:start] + bytes(len(data[start:end])) + data[end:]
        return data


class SimulatedDisk(Disk):
    """`crash_in`: the operation at which the process dies; `dies_writing`: the next write does.
    `room`: bytes that may be written; None: no limit. `slow_s`: what a sync takes; `waits` lets the
    world go on for so long; `fails`: a sync does."""

    def __init__(self, random: Random, happened: Counter[str] | None = None) -> None:
        self._random = random
        self._happened = Counter[str]() if happened is None else happened
        self._names: dict[Path, _File] = {}  # as the process sees them
        self._sure_names: dict[Path, _File] = {}
        self._open: dict[int, tuple[int, Path]] = {}  # ours are never given twice
        self._handles = 0
        self.operations = 0
        self.crash_in: int | None = None
        self.dies_writing = False
        self.room: int | None = None
        self.failing_syncs = 0
        self.slow_s = 0.0
        self.waits: Callable[[float], None] = lambda _: None
        self.fails: Callable[[], None] = lambda: None
        self.syncs = 0

    # -- what the log asks ------------------------------------------------------------------------

    def open(self, path: Path, *, append: bool = True) -> int:
        self._operate()
        self._handles += 1
        self._open[self._handles] = super().open(path, append=append), path
        self._names.setdefault(path, _File())
        return self._handles

    def close(self, handle: int) -> None:
        opened = self._open.pop(handle, None)
        if opened is not None:
            super().close(opened[0])

    def write(self, handle: int, data: bytes) -> None:
        file, part = self._file(handle), self._part_before_crash(data)
        if part is not None:
            self._append(handle, file, part)
            raise Crashed
        if self.room is not None and len(data) > self.room:
            self._append(handle, file, data[: self.room])
            self.room = 0
            self._happened["full disk"] += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.room is not None:
            self.room -= len(data)
        self._append(handle, file, data)

    def overwrite(self, handle: int, data: bytes) -> None:
        self._operate()
        super().overwrite(self._open[handle][0], data)
        file = self._file(handle)
        file.steps.append(lambda before: data + before[len(data) :])
        if len(file.steps) > WRITTEN_BACK:  # the system writes by and by, asked or not
            file.sure = file.steps.pop(0)(file.sure)

    def sync(self, handle: int) -> None:
        file = self._file(handle)
        self._operate()
        self.syncs += 1
        if self.slow_s:
            self._happened["slow sync"] += 1
            self.waits(self.slow_s)
        if self.failing_syncs:
            self.failing_syncs -= 1
            self._happened["failed sync"] += 1
            file.dropped.append((len(file.sure), os.fstat(self._open[handle][0]).st_size))
            file.steps.clear()
            self.fails()
            raise OSError(errno.EIO, "Input/output error")
        file.sure = file.kept(self._open[handle][1].read_bytes())
        file.steps.clear()

    def sync_directory(self, path: Path) -> None:
        self._operate()
        for name in [name for name in self._sure_names if name.parent == path]:
            del self._sure_names[name]
        self._sure_names |= {
            name: file for name, file in self._names.items() if name.parent == path
        }

    def truncate(self, handle: int, size_bytes: int) -> None:
        self._operate()
        super().truncate(self._open[handle][0], size_bytes)
        file = self._file(handle)
        file.dropped = [(start, end) for start, end in file.dropped if start < size_bytes]
        file.steps.append(lambda before: before[:size_bytes])

    def replace(self, path: Path, target: Path) -> None:
        self._operate()
        super().replace(path, target)
        self._names[target] = self._names.pop(path)

    def remove(self, path: Path) -> None:
        self._operate()
        super().remove(path)
        self._names.pop(path, None)

    # -- what happens to it -----------------------------------------------------------------------

    def power_cut(self) -> None:
        """The files become what is left of them. Whoever had them open is gone."""
        self._happened["power cut"] += 1
        self.kill()
        names = dict(self._sure_names)
        for name in sorted({*self._names, *self._sure_names}):
            before, after = self._sure_names.get(name), self._names.get(name)
            if before is not after and self._random.random() < 0.5:
                names.pop(name, None)
                if after is not None:
                    names[name] = after
        for name in {*self._names, *self._sure_names}:
            if name not in names:
                name.unlink(missing_ok=True)
        for name, file in sorted(names.items()):
            left = self._left(file)
            name.write_bytes(left)
            file.sure = left
            file.steps.clear()
            file.dropped.clear()
        self._names, self._sure_names = names, dict(names)

    def kill(self) -> None:
        """The process is gone; what it wrote stays, synced or not."""
        for handle in list(self._open):
            self.close(handle)
        self.crash_in, self.dies_writing, self.slow_s = None, False, 0.0

    def flip_bit(self, path: Path) -> int:
        """Where it matters: in bytes that were synced. Returns which byte it was."""
        data = bytearray(path.read_bytes())
        at = self._random.randrange(len(data))
        data[at] ^= 1 << self._random.randrange(8)
        self._happened["flipped bit"] += 1
        path.write_bytes(data)
        self._names[path].sure = bytes(data)
        return at

    def settle(self, directory: Path) -> None:
        """Everything in there is on the disk as it is."""
        self._names = {
            path: _File(path.read_bytes())
            for path in sorted(directory.rglob("*"))
            if path.is_file()
        }
        self._sure_names = dict(self._names)

    # -- parts ------------------------------------------------------------------------------------

    def _append(self, handle: int, file: _File, data: bytes) -> None:
        super().write(self._open[handle][0], data)
        file.steps.append(lambda before: before + data)

    def _left(self, file: _File) -> bytes:
        done = self._random.randint(0, len(file.steps))
        data = file.sure
        for step in file.steps[:done]:
            data = step(data)
        if done < len(file.steps):
            self._happened["lost write"] += 1
            after = file.steps[done](data)
            if len(after) > len(data):  # torn: the first bytes of it are there
                cut = self._random.randint(len(data), len(after))
                self._happened["torn write"] += len(data) < cut < len(after)
                data = after[:cut]
        if len(data) > len(file.sure) and self._random.random() < 0.3:
            self._happened["lost sector"] += 1
            data = self._without_a_sector(data, len(file.sure))
        return file.kept(data)

    def _without_a_sector(self, data: bytes, sure: int) -> bytes:
        """It came to the disk later than what lies behind it."""
        at = self._random.randrange(sure, len(data)) // SECTOR * SECTOR
        start = max(at, sure)
        end = min(at + SECTOR, len(data))
        return data[:start] + bytes(end - start) + data[end:]

    def _file(self, handle: int) -> _File:
        path = self._open[handle][1]
        return self._names.get(path, _File())  # removed while it was open: nobody will find it

    def _operate(self) -> None:
        self.operations += 1
        if self._dies():
            raise Crashed

    def _part_before_crash(self, data: bytes) -> bytes | None:
        self.operations += 1
        if self.dies_writing:
            self.dies_writing, self.crash_in = False, 0
        return data[: self._random.randint(0, len(data))] if self._dies() else None

    def _dies(self) -> bool:
        if self.crash_in is None:
            return False
        self.crash_in -= 1
        self._happened["crash in the middle"] += self.crash_in < 0
        return self.crash_in < 0
