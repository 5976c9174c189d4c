"""Writes traces: Parquet, every page with a checksum. A recording is a journal until it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace
from numpy.typing import NDArray

from tocsin.errors import Conflict, InvalidInput
from tocsin.lab.trace import journal
from tocsin.lab.trace.requests import RequestTrace
from tocsin.lab.trace.schema import EVENTS, REQUESTS
from tocsin.protocol.trace import (
    KIND_COLUMN,
    KINDS,
    LOST,
    PARQUET_KEY,
    QUIET,
    VERSION,
    WHO,
    About,
    Label,
)

ROWS = 100_000  # of a row group
EVERY_S = 1.0  # what came reaches the file


class EventWriter:
    """Writes records as they come into a journal, which `close` replaces by Parquet.

    Both have the same name, and whatever ends the process, one of them is there and can be read.
    """

    def __init__(
        self,
        path: Path,
        about: About,
        *,
        rows: int = ROWS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.events = 0
        self.lost = 0  # that the broker had no room for
        self.duration_s = 0.0
        self._path = path
        self._about = about
        self._rows = rows
        self._clock = clock
        self._waiting: list[NDArray[Any]] = []
        self._flushed_at = clock()
        self._sink = _create(path)
        with _disk(path):
            journal.begin(self._sink, self._label)

    @property
    def _label(self) -> Label:
        return Label("events", VERSION, replace(self._about, duration_s=self.duration_s))

    def write(self, records: NDArray[Any]) -> None:
        if len(records):
            self.duration_s = float(records["at_s"][-1])
            events = records[records["kind"] != QUIET]
            self.events += len(events)
            self.lost += int(events["position"][events["kind"] == LOST].sum())
            self._waiting.append(events)
        late = self._clock() - self._flushed_at >= EVERY_S
        if late or sum(map(len, self._waiting)) >= self._rows:
            self._flush()

    def close(self) -> None:
        self._flush()
        with _disk(self._path), self._sink:
            self._finish()

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        waiting, self._waiting = self._waiting, []
        if waiting:
            with _disk(self._path):
                journal.append(self._sink, np.concatenate(waiting), self.duration_s)

    def _finish(self) -> None:
        """Write the Parquet file aside and let it take the journal's place."""
        aside = self._path.with_name(f".{self._path.name}.aside")
        try:
            with aside.open("wb") as sink:
                writer = _writer(sink, EVENTS)
                for records in self._row_groups():
                    writer.write_table(_events_table(records))
                _finish(writer, self._label)
                sink.flush()
                os.fsync(sink.fileno())
            aside.replace(self._path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def _row_groups(self) -> Iterator[NDArray[Any]]:
        gathered: list[NDArray[Any]] = []
        with self._path.open("rb") as file:
            blocks = journal.blocks(file, self._path)
            next(blocks)  # the label
            for block in blocks:
                gathered.append(journal.records_of(block))
                if sum(map(len, gathered)) >= self._rows:
                    yield np.concatenate(gathered)
                    gathered = []
        if gathered:
            yield np.concatenate(gathered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def write_requests(trace: RequestTrace, path: Path) -> None:
    sink = _create(path)
    columns = [trace.at_s, trace.object, trace.size_bytes]
    with _disk(path), sink:
        writer = _writer(sink, REQUESTS)
        writer.write_table(pa.table(columns, schema=REQUESTS), row_group_size=ROWS)
        _finish(writer, Label("requests", VERSION))


def _create(path: Path) -> BinaryIO:
    try:
        with _disk(path):
            return path.open("xb")
    except FileExistsError:
        raise Conflict(f"{path} exists already", field="out", hint="name a new file") from None


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """What the disk refuses is told as such: an OSError elsewhere means that no service answers."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInput(f"cannot write {path}: {reason}", field="out") from None


def _writer(sink: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True)


def _finish(writer: pq.ParquetWriter, label: Label) -> None:
    writer.add_key_value_metadata({PARQUET_KEY.decode(): msgspec.json.encode(label).decode()})
    writer.close()


def _events_table(records: NDArray[Any]) -> pa.Table:
    columns = []
    for field in EVENTS:
        if field.name == KIND_COLUMN:
            kinds = pa.array(records["kind"].astype(np.int8))
            columns.append(pa.DictionaryArray.from_arrays(kinds, pa.array(KINDS)))
        else:
            values = np.ascontiguousarray(records[field.name])
            nobody = values < 0 if field.name in WHO else None
            columns.append(pa.array(values, field.type, mask=nobody))
    return pa.table(columns, schema=EVENTS)
