"""Datasets as files up to a position and the log from there, as `spark/tables/` keeps them, in
plain JSON. The manifest and the log are the real ones; so are the horizon and the bound that
housekeeping asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tocsin.model import Dataset
from tocsin.protocol import log_line
from tocsin.storage.flushed import Flushes, stored_end, window_end
from tocsin.storage.log import Reader
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.store.files import DatasetFiles

MERGED = 2  # so many files become one


class Line(NamedTuple):
    position: int
    taken_us: int
    record: dict[str, Any]


class StoredFiles:
    def __init__(
        self,
        reader: Reader,
        manifest: DatasetFiles,
        directory: Path,
        *,
        clock: Callable[[], float],
        grace_s: float,
    ) -> None:
        self._log = reader
        self._manifest = manifest
        self._directory = directory
        self._clock = clock
        self._grace_s = grace_s
        self._known: dict[str, tuple[DataFile, ...]] = {}  # of the manifest, which only we change
        self._flushes = Flushes(clock, grace_s)
        directory.mkdir(exist_ok=True)

    def plan(self, dataset: str, start: int | None, end: int) -> Callable[[], list[Line]]:
        """Read the records in [start, end) later, from the files that there are now."""
        files = self._files(dataset)
        tail = max(stored_end(self._log, dataset, _end(files)), start or 0)

        def read() -> list[Line]:
            lines = [line for file in files for line in self._read(file)]
            if tail < end:
                lines += self._tail(dataset, tail, end)
            return [line for line in lines if (start or 0) <= line.position < end]

        return read

    def bound(self, dataset: Dataset, start: int, end: int, most_bytes: int) -> int:
        stored = partial(self.stored_end, dataset)
        return window_end(self._log, dataset.name, start, end, most_bytes, stored)

    def stored_end(self, dataset: Dataset) -> int:
        return stored_end(self._log, dataset.name, _end(self._files(dataset.name)))

    def flush(self, dataset: Dataset, end: int) -> int:
        start = self.stored_end(dataset)
        if start >= end:
            return 0
        added = self._write(dataset.name, self._tail(dataset.name, start, end), start, end)
        self._flushes.note(dataset.name, start)
        self._replace(dataset.name, [], [added])
        return 1

    def compact(self, dataset: Dataset, horizon: int | None = None) -> bool:
        """Merge what nobody looks at from within or as of any more; of each key the newest."""
        files = self._files(dataset.name)
        merged = [file for file in files if horizon is None or file.end_position <= horizon]
        if len(merged) < MERGED:
            return False
        lines = [line for file in merged for line in self._read(file)]
        if dataset.primary_key:
            newest = {
                tuple(line.record[key] for key in dataset.primary_key): line for line in lines
            }
            lines = sorted(newest.values())
        first, end = merged[0].first_position, merged[-1].end_position
        added = self._write(dataset.name, lines, first, end)
        self._replace(dataset.name, [file.path for file in merged], [added])
        return True

    def retire_below(self, dataset: Dataset, bound: int) -> int:
        return self._flushes.kept_below(dataset.name, min(bound, self.stored_end(dataset)))

    def sweep(self, *, pinned_us: int | None = None) -> int:
        retired = self._manifest.retired(self._clock() - self._grace_s)
        for dataset, path in retired:
            (self._directory / path).unlink(missing_ok=True)
            self._manifest.forget(dataset, path)
        return len(retired)

    def _files(self, dataset: str) -> tuple[DataFile, ...]:
        if dataset not in self._known:
            self._known[dataset] = self._manifest.files(dataset)
        return self._known[dataset]

    def _replace(self, dataset: str, gone: list[str], added: list[DataFile]) -> None:
        self._known.pop(dataset, None)
        self._manifest.replace(dataset, gone, added)

    def _tail(self, dataset: str, start: int, end: int) -> list[Line]:
        return [
            Line(position, content.taken_us, msgspec.json.decode(content.record))
            for position, body in self._log.lines(dataset, start, end)
            for content in [log_line.decode_content(body)]
        ]

    def _read(self, file: DataFile) -> list[Line]:
        raw = (self._directory / file.path).read_bytes()
        return msgspec.json.decode(raw, type=list[Line])

    def _write(self, dataset: str, lines: list[Line], first: int, end: int) -> DataFile:
        """Under a name that was never used before, as the real ones have."""
        names = (f"{dataset}-{first}-{end}-{number}" for number in count())
        path = next(name for name in names if not (self._directory / name).exists())
        data = msgspec.json.encode(lines)
        (self._directory / path).write_bytes(data)
        newest = max((line.taken_us for line in lines), default=0)
        return DataFile(path, first, end, len(lines), len(data), newest)


def _end(files: tuple[DataFile, ...]) -> int | None:
    return max((file.end_position for file in files), default=None)
