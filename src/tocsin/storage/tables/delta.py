"""Delta tables as their logs have them, read without Spark: one table for each dataset.

The table's log is the truth: which files make up a version, and up to which position of the
dataset's log they reach. That is the version of a transaction whose application is the dataset
itself, as it was made; a table of an earlier dataset of that name therefore has nothing of it.
One cluster alone writes: what was read once is true until it writes again, and says so (`anew`).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from msgspec import Struct

from tocsin.errors import Damaged
from tocsin.model import Dataset
from tocsin.protocol.columns import POSITION, RECEIVED_AT
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables.address import LOG, TableAddress
from tocsin.storage.tables.place import Place, away
from tocsin.storage.tables.port import Stored

READER_VERSION = 1  # files are whole, and columns have their own names
_STAGED = "_staged_commits"
_DROPPED = "_dropped"  # in a table whose dataset is no more
_MOST_US_CUT = 1000  # times in a table's log are cut to milliseconds


class _Known(Struct):
    table: DeltaTable
    application: str = ""
    stored: Stored = Stored()


class DeltaFiles:
    def __init__(self, address: TableAddress, owner: str) -> None:
        """`owner` is the id of the store whose datasets these are."""
        self.address = address
        self.place = Place(address)
        self.folder = self.place.folder
        self._owner = owner
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def application(self, dataset: Dataset) -> str:
        """By which a table's log knows the dataset."""
        return f"tocsin/{self._owner}/{dataset.name}/{dataset.created_at!r}"

    def stored(self, dataset: Dataset, *, anew: bool = False) -> Stored:
        application = self.application(dataset)
        with self._lock:
            known = self._known.get(dataset.name)
            if known is None or known.application != application or anew:
                known = self._read(dataset.name, application, known)
            return Stored() if known is None else known.stored

    def version(self, dataset: Dataset) -> int | None:
        """Of the table, as `stored` has it; None: there is none."""
        known = self._known.get(dataset.name)
        return None if known is None else known.table.version()

    def stored_end(self, dataset: Dataset) -> int:
        return self.stored(dataset).end or 0

    def kept(self, dataset: Dataset) -> Iterator[str]:
        for file in self.stored(dataset).files:
            yield file.path
        yield from self._records_in(dataset.name)

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def prepare(self, name: str) -> None:
        """Before a table is made: Delta makes an empty folder in its log each time, which an object
        store is asked for as a file first. S3Proxy says that it is one, unless something is in it.
        """
        if self.address.scheme == "s3a":
            self.place.write(f"{name}/{LOG}/{_STAGED}/.keep", b"")

    def note_dropped(self, name: str) -> None:
        """Its dataset is no more: some day the table goes."""
        self.place.write(f"{name}/{_DROPPED}", b"")

    def delete_dropped(self, before: float, names: Collection[str]) -> int:
        """Delete tables whose datasets were dropped before a moment, unless there are others of
        those names now; returns how many files of records these had."""
        count = 0
        for table in self.place.folders():
            note = self.place.info(f"{table}/{_DROPPED}")
            if note is None:
                continue
            if table in names:
                self.place.delete(f"{table}/{_DROPPED}")
            elif note.mtime.timestamp() < before:
                count += len(self._records_in(table))
                self.place.delete_folder(table)
        return count

    def _records_in(self, table: str) -> list[str]:
        names = (info.base_name for info in self.place.files(table))
        return [f"{table}/{name}" for name in names if name.endswith(".parquet")]

    def _read(self, name: str, application: str, known: _Known | None) -> _Known | None:
        try:
            if known is None:
                known = _Known(self._open(name))
            else:
                known.table.update_incremental()
            end = known.table.transaction_version(application)
            files = () if end is None else self._files(name, known.table, end)
        except TableNotFoundError:
            self._known.pop(name, None)
            return None
        except (DeltaError, OSError) as error:
            raise away(self.address, name, error) from None
        known.application, known.stored = application, Stored(files, end)
        self._known[name] = known
        return known

    def _open(self, name: str) -> DeltaTable:
        where = self.address.of(name)
        return DeltaTable(where, storage_options=self.address.storage_options())

    def _files(self, name: str, table: DeltaTable, end: int) -> tuple[DataFile, ...]:
        reader_version = table.protocol().min_reader_version
        if reader_version != READER_VERSION:
            raise Damaged(
                f"somebody has changed how the table {self.address.of(name)} is read: it asks for"
                f" readers of version {reader_version}",
                hint="column mapping and deletion vectors must stay off in tables of Tocsin",
            )
        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return data_files(name, rows, end)


def data_files(name: str, rows: list[dict[str, Any]], end: int) -> tuple[DataFile, ...]:
    """A table's files by position. No record lies between the last of a file and its end, which is
    where the next file begins: those that were merged may overlap others."""
    rows = sorted((row for row in rows if row["num_records"]), key=lambda row: _range(row))
    firsts = [_range(row)[0] for row in rows]
    files = []
    for row in rows:
        first, last, path = _range(row)
        behind = bisect_right(firsts, last)
        files.append(
            DataFile(
                path=f"{name}/{path}",
                first_position=first,
                end_position=firsts[behind] if behind < len(firsts) else end,
                rows=row["num_records"],
                size_bytes=row["size_bytes"],
                max_received_us=_newest_us(row[f"max.{RECEIVED_AT}"]),
            )
        )
    return tuple(files)


def _range(row: dict[str, Any]) -> tuple[int, int, str]:
    return row[f"min.{POSITION}"], row[f"max.{POSITION}"], row["path"]


def _newest_us(at: Any) -> int:
    return 0 if at is None else int(pa.scalar(at, pa.timestamp("us", "UTC")).value) + _MOST_US_CUT
