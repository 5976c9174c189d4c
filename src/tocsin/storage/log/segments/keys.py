"""Which requests a dataset's log holds already: one that is sent again is found, not written again.

A request's key stands in its first line, so that it is durable exactly when its records are. The
newest MOST of a dataset are known: those of closed segments from the file `keys`, which is written
when a segment is closed, the others from the current segment itself. Only the writer's thread
calls this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tocsin.storage.log.segments.disk import Disk

MOST = 100_000
NAME = "keys"

Place = tuple[int, int]
"""Where a request's records stand: the first position, and where the next record goes."""


class Keys:
    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk
        self._known: dict[str, Place] = {}  # oldest first
        self._staged: dict[str, Place] = {}
        self._saved = True
        if (folder / NAME).exists():
            raw = (folder / NAME).read_bytes()
            self._known = msgspec.json.decode(raw, type=dict[str, Place])

    def find(self, key: str | None) -> Place | None:
        if key is None:
            return None
        return self._known.get(key) or self._staged.get(key)

    def stage(self, key: str, place: Place) -> None:
        """Its records are part of the next commit."""
        self._staged[key] = place

    def commit(self) -> None:
        if self._staged:
            self._known |= self._staged
            self._staged.clear()
            self._saved = False
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def cut_back(self) -> None:
        self._staged.clear()

    def save(self) -> None:
        """Keep what is known when the segments that have it are deleted."""
        if self._saved:
            return
        fresh = self._folder / f"{NAME}.writing"
        handle = self._disk.open(fresh)
        try:
            self._disk.truncate(handle, 0)
            self._disk.write(handle, msgspec.json.encode(self._known))
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)
        self._disk.replace(fresh, self._folder / NAME)
        self._disk.sync_directory(self._folder)
        self._saved = True

    def forget(self, ranges: Sequence[Place]) -> None:
        """Of requests that have lost records there: sent again, they are taken again."""
        kept = {
            key: (first, end)
            for key, (first, end) in self._known.items()
            if not any(first < stop and start < end for start, stop in ranges)
        }
        if len(kept) < len(self._known):
            self._known, self._saved = kept, False
            self.save()

    def drop(self) -> None:
        self._known.clear()
        self._saved = True
        self._disk.remove(self._folder / NAME)
        self._disk.sync_directory(self._folder)
