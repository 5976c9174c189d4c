"""Files of a stored dataset, read without Spark: their records as the log had them.

Those whose positions overlap are read as one. Rows lie in no order in particular, so that positions
are sorted first (and remembered: a file never changes). `ends` says where records end, by where
they begin: the log's medium knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from tocsin.model import Dataset
from tocsin.protocol.columns import EXTRA, POSITION, RECEIVED_AT
from tocsin.sql import SqlType, parse_type
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import Folder

_US = pa.timestamp("us", tz="UTC")
_FILES_REMEMBERED = 16

Row = tuple[int, int, float, bytes]
"""Where the record begins and ends, when the log took it, its JSON."""
Ends = Callable[[Sequence[int], int], list[int]]
Kept = Callable[[Any], Any]


class FileRange(Struct, frozen=True):
    """Files that hold all records of [first_position, end_position); no file of another range holds
    one."""

    paths: tuple[str, ...]
    first_position: int
    end_position: int
    rows: int
    max_received_us: int


def file_ranges(files: Sequence[DataFile]) -> list[FileRange]:
    """By position, as the files are. What an engine merged may overlap what lay between."""
    ranges: list[FileRange] = []
    for file in files:
        merged = FileRange(
            (file.path,),
            file.first_position,
            file.end_position,
            file.rows,
            file.max_received_us,
        )
        if ranges and file.first_position < ranges[-1].end_position:
            before = ranges.pop()
            merged = FileRange(
                (*before.paths, file.path),
                before.first_position,
                max(before.end_position, file.end_position),
                before.rows + file.rows,
                max(before.max_received_us, file.max_received_us),
            )
        ranges.append(merged)
    return ranges


class StoredRange:
    def __init__(self, folder: Folder, files: FileRange, dataset: Dataset, ends: Ends) -> None:
        self._folder = folder
        self._file = files
        self._dataset = dataset
        self._ends = ends

    @property
    def first_position(self) -> int:
        """Where the first record begins that is in them."""
        return int(_positions(self._folder, self._file.paths)[0])

    def read(self, after: int, upto: int, most_bytes: int) -> tuple[list[Row], int]:
        """The records that end in (after, upto], about `most_bytes` of them, and up to where these
        are all there are."""
        positions = _positions(self._folder, self._file.paths)
        begin = max(0, int(np.searchsorted(positions, after, "right")) - 1)
        end = min(len(positions), begin + 1 + self._rows_of(most_bytes))
        rows = [row for row in self._read(begin, end) if row[1] > after]
        whole = end == len(positions)
        reached = min(upto, self._file.end_position if whole else int(positions[end]))
        return [row for row in rows if row[1] <= reached], reached

    def backwards(self, most_bytes: int) -> Iterator[list[Row]]:
        """All records, in order within pieces; the newest piece first."""
        step = self._rows_of(most_bytes)
        for end in range(len(_positions(self._folder, self._file.paths)), 0, -step):
            yield self._read(max(0, end - step), end)

    def since(self, at_us: int) -> int:
        """Where the first record begins that was taken at or after a moment; its end if none."""
        table = _table(self._folder, self._file.paths, columns=[POSITION, RECEIVED_AT])
        at = table.column(RECEIVED_AT).cast(_US).cast(pa.int64())
        first = pc.min(table.column(POSITION).filter(pc.greater_equal(at, at_us))).as_py()
        return self._file.end_position if first is None else int(first)

    def _rows_of(self, most_bytes: int) -> int:
        return max(1, int(most_bytes / max(1.0, _row_bytes(self._folder, self._file.paths))))

    def _read(self, begin: int, end: int) -> list[Row]:
        """Rows by their numbers in order of position."""
        positions = _positions(self._folder, self._file.paths)
        if begin >= end:
            return []
        starts: list[int] = positions[begin:end].tolist()
        following = int(positions[end]) if end < len(positions) else self._file.end_position
        wanted = [(POSITION, ">=", starts[0]), (POSITION, "<=", starts[-1])]
        table = _table(self._folder, self._file.paths, filters=wanted).sort_by(POSITION)
        at = table.column(RECEIVED_AT).cast(_US).cast(pa.int64()).to_pylist()
        records = self._records(table)
        ends = self._ends(starts, following)
        return [
            (start, stop, at_us / 1e6, record)
            for start, stop, at_us, record in zip(starts, ends, at, records, strict=True)
        ]

    def _records(self, table: pa.Table) -> list[bytes]:
        columns: list[tuple[str, list[Any]]] = []
        for column in self._dataset.columns:
            if column.name in table.column_names:
                kept = _kept(parse_type(column.type))
                values = table.column(column.name).to_pylist()
                columns.append((column.name, [None if v is None else kept(v) for v in values]))
        records: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
        for name, values in columns:
            for record, value in zip(records, values, strict=True):
                if value is not None:  # as in the log
                    record[name] = value
        if EXTRA in table.column_names:
            for record, extra in zip(records, table.column(EXTRA).to_pylist(), strict=True):
                record.update(extra or ())
        return [msgspec.json.encode(record) for record in records]


def _table(folder: Folder, paths: tuple[str, ...], **wanted: Any) -> pa.Table:
    whole = [folder.path(path) for path in paths]
    return pq.read_table(whole, filesystem=folder.filesystem, **wanted)


@lru_cache(_FILES_REMEMBERED)
def _positions(folder: Folder, paths: tuple[str, ...]) -> npt.NDArray[np.int64]:
    column = _table(folder, paths, columns=[POSITION]).column(POSITION)
    return np.sort(column.to_numpy())


@lru_cache(_FILES_REMEMBERED)
def _row_bytes(folder: Folder, paths: tuple[str, ...]) -> float:
    total_bytes = rows = 0
    for path in paths:
        footer = pq.read_metadata(folder.path(path), filesystem=folder.filesystem)
        groups = (footer.row_group(number) for number in range(footer.num_row_groups))
        total_bytes += sum(group.total_byte_size for group in groups)
        rows += footer.num_rows
    return total_bytes / max(1, rows)


def _kept(kind: SqlType) -> Kept:
    """From a value of Parquet to the one that the log kept."""
    match kind.kind:
        case "DECIMAL":
            return lambda value: f"{value:f}"
        case "DATE":
            return lambda value: value.isoformat()
        case "TIMESTAMP":
            return _timestamp
        case "FLOAT":
            return lambda value: float(str(np.float32(value)))  # the shortest that is the same
        case "ATTACHMENT":
            return lambda value: {name: field for name, field in value.items() if field is not None}
        case "ARRAY":
            item = _nullable(_kept(kind.items[0]))
            return lambda value: [item(element) for element in value]
        case "MAP":
            item = _nullable(_kept(kind.items[1]))
            return lambda value: {key: item(element) for key, element in value}
        case "STRUCT":
            fields = {
                name: _nullable(_kept(field_kind))
                for name, field_kind in zip(kind.names, kind.items, strict=True)
            }
            return lambda value: {name: fit(value.get(name)) for name, fit in fields.items()}
        case _:
            return lambda value: value


def _nullable(kept: Kept) -> Kept:
    return lambda value: None if value is None else kept(value)


def _timestamp(value: Any) -> str:
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return str(moment.isoformat(timespec="microseconds"))[:-6] + "Z"
