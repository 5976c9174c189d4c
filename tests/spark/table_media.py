"""The media of stored datasets, for tests that hold for each. To add one, add it to MEDIA."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn, Protocol

import pytest
from pyspark.sql import SparkSession

from tocsin.model import Dataset
from tocsin.spark.jars import DELTA
from tocsin.spark.tables import Medium, ParquetMedium
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import TableFiles
from tocsin.storage.tables.address import TableAddress

OWNER = "5e1f5e1f5e1f5e1f"


class MediumUnderTest(Protocol):
    """A place for stored datasets that nobody else uses."""

    files: TableFiles

    def open(self) -> Medium:
        """As a cluster does that starts."""

    def data_files(self) -> list[Path]:
        """Everything that holds records, of whatever time."""

    def cut_short(self) -> AbstractContextManager[None]:
        """Within this context whoever changes something dies: files are written, and are part of no
        dataset."""


class MemoryManifest:
    """The manifest's shape without a database."""

    owner = OWNER

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.live: dict[str, list[DataFile]] = {}
        self.gone: dict[tuple[str, str], float] = {}
        self.crash = False

    def files(self, dataset: str) -> tuple[DataFile, ...]:
        return tuple(sorted(self.live.get(dataset, ()), key=lambda f: f.first_position))

    def stored_end(self, dataset: str) -> int:
        return max((file.end_position for file in self.files(dataset)), default=0)

    def drop(self, dataset: str) -> None:
        self.replace(dataset, [file.path for file in self.files(dataset)], [])

    def replace(self, dataset: str, remove: Sequence[str], add: Sequence[DataFile]) -> None:
        if self.crash:
            raise KeyboardInterrupt
        kept = [f for f in self.live.get(dataset, []) if f.path not in remove]
        self.live[dataset] = [*kept, *add]
        self.gone |= {(dataset, path): self._clock() for path in remove}

    def retired(self, before: float) -> list[tuple[str, str]]:
        return [key for key, at in self.gone.items() if at < before]

    def forget(self, dataset: str, path: str) -> None:
        del self.gone[dataset, path]


class OnParquet:
    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        clock: Callable[[], float],
        datasets: Callable[[], Sequence[Dataset]],
    ) -> None:
        from tocsin.storage.tables.parquet import ParquetFiles

        self._spark = spark
        self._directory = directory
        self.manifest = MemoryManifest(clock)
        self.files: TableFiles = ParquetFiles(self.manifest, directory)  # type: ignore[arg-type]

    def open(self) -> Medium:
        return ParquetMedium(self._spark, self._directory, self.manifest)

    def data_files(self) -> list[Path]:
        return sorted(self._directory.glob("*/*"))

    @contextmanager
    def cut_short(self) -> Iterator[None]:
        self.manifest.crash = True
        with pytest.raises(KeyboardInterrupt):
            yield
        self.manifest.crash = False


class OnDelta:
    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        clock: Callable[[], float],
        datasets: Callable[[], Sequence[Dataset]],
        *,
        address: str = "",
    ) -> None:
        if not DELTA.paths():
            pytest.skip("Delta's jars are not here, and cannot be fetched")
        self._spark = spark
        self._datasets = datasets
        self.directory = directory
        self.address = TableAddress.parse(address or f"file://{directory}")
        self.open()

    def open(self) -> Medium:
        from tocsin.spark.tables.delta import DeltaMedium
        from tocsin.storage.tables.delta import DeltaFiles

        files = DeltaFiles(self.address, OWNER)
        self.files: TableFiles = files
        return DeltaMedium(self._spark, files, self._datasets)

    def data_files(self) -> list[Path]:
        return sorted(self.directory.glob("*/*.parquet"))

    @contextmanager
    def cut_short(self) -> Iterator[None]:
        """In place of a commit: Delta writes the files first, under names of their own."""
        from tocsin.spark.tables import delta

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delta, "_rewriting", lambda *_: _Dying(self.data_files()))
            patch.setattr(delta.DeltaMedium, "_table", lambda *_: _Dying(self.data_files()))
            with pytest.raises(KeyboardInterrupt):
                yield


class _Dying:
    """Spark's writer, and a table of Delta's, as far as they come."""

    def __init__(self, files: list[Path]) -> None:
        self._file = files[0]

    def option(self, *_: object) -> _Dying:
        return self

    def optimize(self) -> _Dying:
        return self

    def save(self, _: str = "") -> NoReturn:
        left = self._file.with_name(f"part-00000-{uuid.uuid4()}-c000.zstd.parquet")
        shutil.copyfile(self._file, left)
        raise KeyboardInterrupt

    executeCompaction = save  # as Delta calls it


MEDIA: dict[str, Callable[..., MediumUnderTest]] = {"parquet": OnParquet, "delta": OnDelta}
over_every_medium = pytest.mark.parametrize("on", list(MEDIA))
