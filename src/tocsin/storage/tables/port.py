"""What is asked of a medium of stored datasets by those who read it without Spark.

Spark writes the files (`spark.tables`); here is what they are: which ones make up a dataset now, up
to which position of its log, and how their bytes are reached. Knows neither Spark nor a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from pyarrow.fs import FileSystem

from tocsin.model import Dataset
from tocsin.storage.store.data_file import DataFile


class Stored(NamedTuple):
    """A dataset's stored part, as of one moment."""

    files: tuple[DataFile, ...] = ()  # by first position
    end: int | None = None  # every record below is in them, or was dropped; None: none was stored


class Folder:
    """Where files are that are known by relative paths."""

    def __init__(self, filesystem: FileSystem, root: str) -> None:
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    def path(self, path: str) -> str:
        """As the file system has it."""
        return f"{self.root}/{path}"


class TableFiles(Protocol):
    """Safe to call from any thread. One that lies elsewhere and cannot be reached raises
    Unavailable."""

    folder: Folder

    def stored(self, dataset: Dataset) -> Stored: ...

    def stored_end(self, dataset: Dataset) -> int:
        """Up to which position the dataset was ever stored; 0: it was not."""

    def kept(self, dataset: Dataset) -> Iterator[str]:
        """The paths of its files in use, then of those that are not and still there: whoever began
        to read before may."""

    def forget(self, name: str) -> None:
        """A dataset that is made now has nothing stored, whatever one of that name had before."""
