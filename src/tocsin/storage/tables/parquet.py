"""Parquet files in the data directory; the store's manifest says which make up a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyarrow.fs import LocalFileSystem

from tocsin.model import Dataset
from tocsin.storage.store.files import DatasetFiles
from tocsin.storage.tables.port import Folder, Stored

_EVER = 1e15


class ParquetFiles:
    def __init__(self, manifest: DatasetFiles, directory: Path) -> None:
        self.folder = Folder(LocalFileSystem(), str(directory))
        self._manifest = manifest

    def stored(self, dataset: Dataset) -> Stored:
        files = self._manifest.files(dataset.name)
        return Stored(files, max((file.end_position for file in files), default=None))

    def stored_end(self, dataset: Dataset) -> int:
        return self._manifest.stored_end(dataset.name)

    def kept(self, dataset: Dataset) -> Iterator[str]:
        for file in self._manifest.files(dataset.name):
            yield file.path
        for name, path in self._manifest.retired(_EVER):
            if name == dataset.name:
                yield path

    def forget(self, name: str) -> None:
        self._manifest.drop(name)
