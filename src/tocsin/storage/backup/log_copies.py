"""A publication log's part of a backup, from beside the process that writes it, and back again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tocsin import durable
from tocsin.errors import Conflict, Gone
from tocsin.protocol.backup import DatasetCut, LogKind, Manifest, StoredFile
from tocsin.storage.backup import files
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.identity import Mark, write_mark
from tocsin.storage.log.segments import heads, keys, lost
from tocsin.storage.log.segments.disk import Disk
from tocsin.storage.log.segments.reader import list_segments, read_lines

_SETTLED_S = 2.0
_LOOK_AGAIN_S = 0.05


class Copied(NamedTuple):
    """What is in the backup's folder of a dataset: its log from `first` on, and how many records of
    it are not stored."""

    first: int
    stored_end: int
    records: int


class LogSource(Protocol):
    kind: LogKind

    def last_us(self) -> int:
        """The newest time that was handed out, as far as the medium knows."""

    def copy_matches(self, taken: Mapping[str, int], file: Path) -> int:
        """What real-time mode has found and the store has not; how many. `taken`: up to where, by
        topic. Gone if the store was further when somebody deleted what it had."""

    def end(self, dataset: str) -> int:
        """Everything below is durable; Gone if the dataset is."""

    def copy(self, dataset: str, stored_end: int | None, end: int, folder: Path) -> Copied:
        """What is not stored, up to the end; Gone if some of that is stored by now, and the log
        lets it go."""

    def close(self) -> None: ...


class SegmentSource:
    """Segments as they are: up to the end they do not change any more."""

    kind: LogKind = "segments"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._require_closed()

    def last_us(self) -> int:
        return heads.read(self._directory).last_us

    def copy_matches(self, taken: Mapping[str, int], file: Path) -> int:
        return 0

    def end(self, dataset: str) -> int:
        try:
            return self._ends()[dataset]
        except KeyError:
            raise Gone(f"the log has no dataset {dataset!r} any more", field=dataset) from None

    def copy(self, dataset: str, stored_end: int | None, end: int, folder: Path) -> Copied:
        segments = [
            (first, path) for first, path in list_segments(self._directory, dataset) if first <= end
        ]
        if stored_end is not None:
            begun = [first for first, _ in segments if first <= stored_end]
            segments = [place for place in segments if place[0] >= max(begun, default=0)]
        if not segments or segments[0][0] > (segments[0][0] if stored_end is None else stored_end):
            raise Gone(f"the log of {dataset} has let go of what was copied", field=dataset)
        first = segments[0][0]
        stored_end = first if stored_end is None else stored_end
        positions = (position for position, _ in read_lines(self._directory, dataset, first, end))
        records = sum(position >= stored_end for position in positions)
        for begin, path in segments:
            files.write(folder / path.name, files.pieces(path, end - begin))
        # Keys last: those of closed segments are looked for there alone.
        source = self._directory / dataset
        if (source / keys.NAME).exists():
            known = msgspec.json.decode(
                (source / keys.NAME).read_bytes(), type=dict[str, keys.Place]
            )
            whole = {key: place for key, place in known.items() if place[1] <= end}
            files.write(folder / keys.NAME, [msgspec.json.encode(whole)])
        if (source / lost.NAME).exists():
            files.write(folder / lost.NAME, files.pieces(source / lost.NAME))
        return Copied(first, stored_end, records)

    def close(self) -> None:
        pass

    def _ends(self) -> dict[str, int]:
        known = heads.read(self._directory)
        return known.unopened | known.ends

    def _require_closed(self) -> None:
        """A log that a crash left may hold more than is known of it until it is opened again.
        Whoever writes it moves the ends that are known."""
        before, since = self._ends(), time.monotonic()
        while beyond := [name for name, end in before.items() if self._size(name) > end]:
            if self._ends() != before:
                return
            if time.monotonic() - since > _SETTLED_S:
                raise Conflict(
                    f"the log of {beyond[0]} was not closed: what is at its end is not known",
                    field="log",
                    hint="start the cluster, which brings its log in order, and repeat",
                )
            time.sleep(_LOOK_AGAIN_S)

    def _size(self, dataset: str) -> int:
        segments = list_segments(self._directory, dataset)
        return segments[-1][0] + segments[-1][1].stat().st_size if segments else 0


class LogTarget(Protocol):
    def restore(self, root: Path, progress: Progress) -> None:
        """All that the backup has; again after a part of it."""

    def look(self, cut: DatasetCut) -> tuple[int, str]:
        """How many records are there that are not stored, and a hash of all that was restored."""

    def expected(self, cut: DatasetCut) -> str:
        """The hash that `look` gives if all is there."""

    def look_at_matches(self) -> tuple[int, str]:
        """How many there are, and a hash of what would be in a backup of them."""

    def mark(self) -> None:
        """Say whose it is."""


class SegmentTarget:
    def __init__(self, directory: Path, manifest: Manifest, owner: Mark) -> None:
        self._directory = directory
        self._manifest = manifest
        self._owner = owner

    def restore(self, root: Path, progress: Progress) -> None:
        """With the ends that the log has to have when it is opened."""
        durable.make_directory(self._directory)
        for cut in watched(progress, "logs of datasets", self._manifest.datasets):
            for file in files_of(self._manifest, cut):
                files.copy(root, file, self._directory / file.path.removeprefix("log/"))
        ends = {cut.name: cut.end for cut in self._manifest.datasets}
        written = heads.HeadsFile(self._directory, Disk())
        written.write(heads.Heads({}, self._manifest.last_us, ends), sync=True)
        written.close()

    def look(self, cut: DatasetCut) -> tuple[int, str]:
        lines = read_lines(self._directory, cut.name, cut.first, cut.end)
        count = sum(position >= cut.stored_end for position, _ in lines)
        folder = self._directory / cut.name
        there = sorted(path.name for path in folder.iterdir())
        return count, files.sum_of(files.described(folder, name) for name in there)

    def expected(self, cut: DatasetCut) -> str:
        return files.sum_of(files_of(self._manifest, cut))

    def look_at_matches(self) -> tuple[int, str]:
        return 0, ""

    def mark(self) -> None:
        write_mark(self._directory, self._owner.now())


def files_of(manifest: Manifest, cut: DatasetCut) -> list[StoredFile]:
    """A dataset's part of the log, by name."""
    return [file for file in manifest.files if file.path.startswith(f"log/{cut.name}/")]
