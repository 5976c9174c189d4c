"""Writes traces: row group by row group as events come, every page with a checksum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tocsin.broker.server.recorder import KINDS, LOST, QUIET
from tocsin.errors import Conflict, InvalidInput
from tocsin.lab.trace.events import RECORD, WHO, About
from tocsin.lab.trace.requests import RequestTrace
from tocsin.lab.trace.schema import EVENTS, KEY, REQUESTS, VERSION, Label

ROWS = 100_000  # of a row group, at most
EVERY_S = 5.0  # a row group, at least


class EventWriter:
    """Writes records as they come; a row group at a time reaches the disk, `close` ends the file.

    After a kill the file lacks its end and is refused by readers. So whoever records takes care
    to close, whatever the broker does.
    """

    def __init__(
        self, path: Path, about: About, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.events = 0
        self.lost = 0  # that the broker had no room for
        self.duration_s = 0.0
        self._path = path
        self._about = about
        self._clock = clock
        self._waiting: list[NDArray[Any]] = []
        self._flushed_at = clock()
        self._sink = _create(path)
        self._writer = _writer(self._sink, EVENTS)

    def write(self, records: NDArray[Any]) -> None:
        if len(records):
            self.duration_s = float(records["at_s"][-1])
            told = records[records["kind"] != QUIET]
            self.events += len(told)
            self.lost += int(told["position"][told["kind"] == LOST].sum())
            self._waiting.append(told)
        if sum(map(len, self._waiting)) >= ROWS or self._clock() - self._flushed_at >= EVERY_S:
            self._flush()

    def close(self) -> None:
        self._flush()
        about = msgspec.structs.replace(self._about, duration_s=self.duration_s)
        with _disk(self._path):
            _finish(self._writer, self._sink, Label("events", VERSION, about))

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        waiting, self._waiting = self._waiting, []
        records = np.concatenate(waiting) if waiting else np.empty(0, RECORD)
        if len(records):
            with _disk(self._path):
                self._writer.write_table(_events_table(records))
                self._sink.flush()

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
    with _disk(path):
        writer = _writer(sink, REQUESTS)
        writer.write_table(pa.table(columns, schema=REQUESTS), row_group_size=ROWS)
        _finish(writer, sink, Label("requests", VERSION))


def _create(path: Path) -> Any:
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


def _writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True)


def _finish(writer: pq.ParquetWriter, sink: Any, label: Label) -> None:
    writer.add_key_value_metadata({KEY.decode(): msgspec.json.encode(label).decode()})
    writer.close()
    sink.close()


def _events_table(records: NDArray[Any]) -> pa.Table:
    columns = []
    for field in EVENTS:
        if field.name == "event":
            kinds = pa.array(records["kind"].astype(np.int8))
            columns.append(pa.DictionaryArray.from_arrays(kinds, pa.array(KINDS)))
        else:
            values = np.ascontiguousarray(records[field.name])
            nobody = values < 0 if field.name in WHO else None
            columns.append(pa.array(values, field.type, mask=nobody))
    return pa.table(columns, schema=EVENTS)
