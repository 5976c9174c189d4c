"""Parquet files in a directory of this machine; a manifest says which of them make up a dataset.

Each flush and each merging writes one file, which becomes part of the dataset in one transaction of
the manifest's. Knows the manifest only as a protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from tocsin import durable
from tocsin.model import Dataset
from tocsin.spark.records import schema_of
from tocsin.spark.tables.compaction import Compaction
from tocsin.spark.tables.merging import merged
from tocsin.spark.tables.parquet_files import delete, strays, write_file
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import Stored

_EVER = 1e15  # seconds; a finite "after everything", since not every database has an infinite one


class Manifest(Protocol):
    """Which files make up each dataset. `replace` is one transaction."""

    owner: str  # whose manifest it is, as the names of files say

    def files(self, dataset: str) -> tuple[DataFile, ...]:
        """The live files, ordered by first position."""
        ...

    def replace(self, dataset: str, remove: Sequence[str], add: Sequence[DataFile]) -> None:
        """Retire some files and add others, all or nothing."""
        ...

    def retired(self, before: float) -> list[tuple[str, str]]:
        """Dataset and path of the files that were retired before a moment."""
        ...

    def forget(self, dataset: str, path: str) -> None:
        """A retired file has been deleted."""
        ...


class ParquetMedium:
    def __init__(self, spark: SparkSession, directory: Path, manifest: Manifest) -> None:
        self._spark = spark
        self._directory = directory
        self._manifest = manifest
        durable.make_directory(directory)

    def stored(self, dataset: Dataset, *, anew: bool = False) -> Stored:
        files = self._manifest.files(dataset.name)
        return Stored(files, max((file.end_position for file in files), default=None))

    def frame(self, dataset: Dataset, files: Sequence[DataFile]) -> DataFrame:
        paths = [str(self._directory / file.path) for file in files]
        return self._spark.read.schema(schema_of(dataset)).parquet(*paths)

    def append(self, dataset: Dataset, records: DataFrame, first: int, end: int) -> None:
        stored = self.stored(dataset).end
        if stored is None or stored < end:
            added = self._write(records, dataset, first, end)
            self._manifest.replace(dataset.name, [], [added])

    def compact(self, dataset: Dataset, stored: Stored, compaction: Compaction) -> None:
        expired, run, oldest_us = compaction.expired, compaction.run, compaction.oldest_us
        added = []
        if run:
            records = merged(self.frame(dataset, run), dataset, oldest_us)
            first, end = run[0].first_position, run[-1].end_position
            added.append(self._write(records, dataset, first, end))
        gone = [file.path for file in (*expired, *run)]
        self._manifest.replace(dataset.name, gone, added)

    def drop(self, dataset: Dataset) -> None:
        paths = [file.path for file in self._manifest.files(dataset.name)]
        if paths:
            self._manifest.replace(dataset.name, paths, [])

    def sweep(self, before: float) -> int:
        count = 0
        for dataset, path in self._manifest.retired(before):
            delete(self._directory / path)
            self._manifest.forget(dataset, path)
            count += 1
        known = {path for _, path in self._manifest.retired(_EVER)}
        for folder in self._directory.iterdir():
            known |= {file.path for file in self._manifest.files(folder.name)}
        for stray in list(strays(self._directory, self._manifest.owner, known, before)):
            delete(stray)
            count += 1
        return count

    def _write(self, records: DataFrame, dataset: Dataset, first: int, end: int) -> DataFile:
        owner = self._manifest.owner
        return write_file(records, self._directory, dataset.name, first, end, owner=owner)
