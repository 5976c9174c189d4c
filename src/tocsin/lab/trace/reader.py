"""Reads traces, and believes nothing: a file that was cut off, overwritten in part or is something
else is refused with the place where it went wrong. A recording that was not finished is read as
far as it goes, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace import journal
from tocsin.lab.trace.events import RECORD, EventTrace
from tocsin.lab.trace.oracle_general import is_oracle_general, read_oracle_general
from tocsin.lab.trace.requests import RequestTrace
from tocsin.lab.trace.schema import EVENTS, REQUESTS, SCHEMAS
from tocsin.protocol.trace import JOURNAL_MARK, KIND_COLUMN, KINDS, PARQUET_KEY, VERSION, WHO, Label

MAGIC = b"PAR1"
SMALLEST_BYTES = 12  # the mark twice, and the footer's length


def read_trace(path: Path) -> EventTrace | RequestTrace:
    """A checked trace, of whichever kind it is: ours, or by its name libCacheSim's."""
    if is_oracle_general(path):
        return read_oracle_general(path)
    with _reading(path), path.open("rb") as file:
        mark = file.read(len(MAGIC))
        file.seek(0)
        trace = _unfinished(path, file) if mark == JOURNAL_MARK else _finished(path, file)
    try:
        trace.check()
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.message}", field="trace", hint=error.hint) from None
    return trace


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}", field="trace") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="trace") from None


def _unfinished(path: Path, file: BinaryIO) -> EventTrace:
    """As far as a recorder came that was killed, or is still at work."""
    blocks = journal.blocks(file, path)
    first = next(blocks, None)
    if first is None:
        raise InvalidInput(f"{path} has no events: its recorder was killed at once", field="trace")
    about = _decoded(path, first.content).about
    parts, duration_s = [np.empty(0, RECORD)], 0.0
    for block in blocks:
        parts.append(journal.records_of(block))
        duration_s = block.duration_s
    about = replace(about, duration_s=duration_s, finished=False)
    return EventTrace(np.concatenate(parts), about)


def _finished(path: Path, file: BinaryIO) -> EventTrace | RequestTrace:
    parquet = _open(path, file)
    label = _label(path, parquet)
    table = _rows(path, parquet, SCHEMAS[label.kind])
    if label.kind == "events":
        return EventTrace(_records_of(table), label.about)
    return RequestTrace(*(table[name].to_numpy() for name in REQUESTS.names))


def _open(path: Path, file: BinaryIO) -> pq.ParquetFile:
    size_bytes = file.seek(0, 2)
    file.seek(0)
    head = file.read(len(MAGIC))
    file.seek(max(size_bytes - len(MAGIC), 0))
    tail = file.read()
    if size_bytes == 0:
        raise InvalidInput(f"{path} is empty: it has 0 bytes", field="trace")
    if head != MAGIC:
        raise InvalidInput(
            f"{path} is no Parquet file: it begins with {head!r}",
            field="trace",
            hint="a trace of libCacheSim is read if its name ends in .oracleGeneral or .bin",
        )
    if tail != MAGIC or size_bytes < SMALLEST_BYTES:
        raise InvalidInput(
            f"{path} is cut off: at byte {size_bytes} its footer is missing",
            field="trace",
            hint="it was not copied whole",
        )
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except Exception as error:  # whatever the library makes of broken bytes
        raise InvalidInput(
            f"{path}: its footer, before byte {size_bytes}, cannot be read: {_first_line(error)}",
            field="trace",
        ) from None


def _label(path: Path, file: pq.ParquetFile) -> Label:
    content = (file.metadata.metadata or {}).get(PARQUET_KEY)
    if content is None:
        raise InvalidInput(
            f"{path} is a Parquet file, but not a trace of ours",
            field="trace",
            hint="tocsin lab trace record makes one, tocsin lab trace convert turns others into it",
        )
    return _decoded(path, content)


def _decoded(path: Path, content: bytes) -> Label:
    try:
        label = msgspec.json.decode(content, type=Label)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: its label cannot be read: {error}", field="trace") from None
    if label.version != VERSION:
        raise InvalidInput(
            f"{path} is a trace of version {label.version}; this program reads {VERSION}",
            field="trace",
        )
    return label


def _rows(path: Path, file: pq.ParquetFile, schema: pa.Schema) -> pa.Table:
    try:
        stored = file.schema_arrow
    except Exception as error:
        raise InvalidInput(f"{path}: its columns cannot be read: {error}", field="trace") from None
    for field in schema:
        place = stored.get_field_index(field.name)
        if place < 0:
            raise InvalidInput(f"{path} has no column {field.name}", field="trace")
        if not _fits(stored.field(place).type, field.type):
            raise InvalidInput(
                f"{path}: its column {field.name} is of {stored.field(place).type}, not"
                f" {field.type}",
                field="trace",
            )
    tables, first = [], 0
    for group in range(file.metadata.num_row_groups):
        about = file.metadata.row_group(group)
        try:
            table = file.read_row_group(group, columns=schema.names, use_threads=False)
            table = table.select(schema.names)
            for column in table.columns:
                column.validate(full=True)
        except Exception as error:
            raise InvalidInput(
                f"{path}: row group {group} (records {first} to {first + about.num_rows - 1}, from"
                f" byte {_start(about)}) cannot be read: {_first_line(error)}",
                field="trace",
            ) from None
        _check_nulls(path, table, first)
        tables.append(table.cast(schema))
        first += table.num_rows
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _fits(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(wanted):
        return stored in (pa.string(), pa.large_string()) or pa.types.is_dictionary(stored)
    return bool(stored == wanted)


def _start(group: Any) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def _check_nulls(path: Path, table: pa.Table, first: int) -> None:
    for name in table.column_names:
        column = table[name]
        if name not in WHO and column.null_count:
            place = first + pc.index(pc.is_null(column), True).as_py()
            raise InvalidInput(f"{path}: record {place} has no {name}", field="trace")


def _records_of(table: pa.Table) -> NDArray[Any]:
    records = np.empty(table.num_rows, RECORD)
    for name in EVENTS.names:
        if name == KIND_COLUMN:
            words = pc.index_in(table[name].cast(pa.string()), value_set=pa.array(KINDS))
            records["kind"] = words.fill_null(-1).to_numpy()
        elif name in WHO:
            records[name] = table[name].fill_null(-1).to_numpy()
        else:
            records[name] = table[name].to_numpy()
    return records


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
