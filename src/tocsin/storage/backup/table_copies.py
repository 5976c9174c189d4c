"""The stored part of datasets in a backup: Parquet files as they are, or Delta tables, each as of
one version, with as much of its log as makes that version. Back again, a table is one that any
engine reads, and whose next version follows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow.parquet as pq

from tocsin import durable
from tocsin.errors import Gone, SettingError
from tocsin.model import Dataset
from tocsin.protocol.backup import Manifest, StoredFile
from tocsin.storage.backup import files
from tocsin.storage.backup.places import Places
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.identity import Mark, belongs_to_another
from tocsin.storage.tables import Stored
from tocsin.storage.tables.address import FIELD, LOG, TableAddress
from tocsin.storage.tables.claim import mark_at, put_mark
from tocsin.storage.tables.place import Place

FOLDER = "tables"  # of a backup
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


class Copy(NamedTuple):
    path: str  # below the folder
    size_bytes: int
    pieces: Callable[[], Iterator[bytes]]


class DeltaSource:
    def __init__(self, address: str, owner: Mark) -> None:
        from tocsin.storage.tables.delta import DeltaFiles  # its library is an extra

        parsed = TableAddress.parse(address)
        self._files = DeltaFiles(parsed, owner.id)
        self._place = self._files.place
        theirs = mark_at(self._place)
        if theirs is None or theirs.id != owner.id:
            what = f"the folder of tables {parsed.shown}"
            raise belongs_to_another(what, owner, theirs or Mark("?"), FIELD)
        self._looked: dict[str, tuple[Stored, int | None]] = {}

    def look(self, datasets: Iterable[Dataset]) -> None:
        """What a round copies is what they are now: nothing that comes later is in it."""
        self._looked = {
            self._files.application(dataset): (
                self._files.stored(dataset, anew=True),
                self._files.version(dataset),
            )
            for dataset in datasets
        }

    def stored(self, dataset: Dataset) -> Stored:
        return self._looked.get(self._files.application(dataset), (Stored(), None))[0]

    def copies(self, dataset: Dataset) -> Iterator[Copy]:
        stored, version = self._looked.get(self._files.application(dataset), (Stored(), None))
        if stored.end is None or version is None:
            return
        for file in stored.files:
            yield self._copy(file.path, file.size_bytes)
        sizes = {info.base_name: info.size for info in self._place.files(f"{dataset.name}/{LOG}")}
        for name in log_of(sizes, version):
            yield self._copy(f"{dataset.name}/{LOG}/{name}", sizes[name])

    def _copy(self, path: str, size_bytes: int) -> Copy:
        return Copy(path, size_bytes, lambda: self._place.pieces(path))


def log_of(names: Iterable[str], version: int) -> list[str]:
    """Of the files of a table's log those that make this version: the last checkpoint before it,
    and every commit since."""
    numbered = {
        (int(match[1]), match[2]): name for name in names if (match := _VERSION.fullmatch(name))
    }
    checkpoints = [number for number, kind in numbered if kind != "json" and number <= version]
    begin = max(checkpoints, default=-1)
    commits = range(max(begin, 0), version + 1)
    missing = [n for n in commits if n > begin and (n, "json") not in numbered]
    if missing:
        raise Gone(f"a table's log has no version {missing[0]} any more", field=FIELD)
    wanted = [numbered[n, "json"] for n in commits if (n, "json") in numbered]
    return [numbered[begin, "checkpoint.parquet"], *wanted] if begin >= 0 else wanted


class StoredTarget(Protocol):
    def restore(self, root: Path, copied: Sequence[StoredFile], progress: Progress) -> None:
        """All files that the backup has; again after a part of them."""

    def look(self, file: StoredFile) -> tuple[StoredFile, int]:
        """What is in the place of a file of the backup, and how many records."""

    def mark(self) -> None:
        """Say whose it is."""


class ParquetTarget:
    folder = "datasets"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def restore(self, root: Path, copied: Sequence[StoredFile], progress: Progress) -> None:
        durable.make_directory(self._directory)
        for file in watched(progress, "Parquet files", copied):
            files.copy(root, file, self._directory / _below(self.folder, file))

    def look(self, file: StoredFile) -> tuple[StoredFile, int]:
        path = _below(self.folder, file)
        rows = pq.read_metadata(self._directory / path).num_rows
        return files.described(self._directory, path), int(rows)

    def mark(self) -> None:
        pass


class DeltaTarget:
    folder = FOLDER

    def __init__(self, address: str, owner: Mark) -> None:
        self._place = Place(TableAddress.parse(address))
        self._owner = owner

    def restore(self, root: Path, copied: Sequence[StoredFile], progress: Progress) -> None:
        """What makes a file part of a table comes last."""
        for file in watched(progress, "files of tables", sorted(copied, key=_is_log)):
            files.check(root, file)
            self._place.write(_below(self.folder, file), files.pieces(root / file.path))

    def look(self, file: StoredFile) -> tuple[StoredFile, int]:
        path = _below(self.folder, file)
        digest, size_bytes = hashlib.sha256(), 0
        for piece in self._place.pieces(path):
            digest.update(piece)
            size_bytes += len(piece)
        there = StoredFile(path, size_bytes, digest.hexdigest())
        if _is_log(file):
            return there, 0
        folder = self._place.folder
        metadata = pq.read_metadata(folder.path(path), filesystem=folder.filesystem)
        return there, int(metadata.num_rows)

    def mark(self) -> None:
        put_mark(self._place, self._owner)


def target_of(places: Places, manifest: Manifest, owner: Mark) -> ParquetTarget | DeltaTarget:
    if manifest.delta and not places.tables:
        raise SettingError(
            "the datasets of the backup are Delta tables",
            field=FIELD,
            hint="say where they go: --tables s3a://bucket/folder, or file:///directory",
        )
    if places.tables and not manifest.delta:
        raise SettingError(
            "the datasets of the backup are Parquet files, which do not become Delta tables",
            field=FIELD,
            hint="leave `tables` empty",
        )
    return DeltaTarget(places.tables, owner) if manifest.delta else ParquetTarget(places.datasets)


def _is_log(file: StoredFile) -> bool:
    return f"/{LOG}/" in file.path


def _below(folder: str, file: StoredFile) -> str:
    return file.path.removeprefix(f"{folder}/")
