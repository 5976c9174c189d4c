"""Turn what a publisher sent (JSON, JSON lines, CSV, Parquet) into numbered raw records.

Knows no dataset: whether a record fits is `intake`'s question. A text that cannot even be read as
a record comes out as Unreadable with its line, so that the others are still taken.
"""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from tocsin.errors import InvalidInput
from tocsin.model import MessageFormat

Format = Literal["json", "jsonl", "csv", "parquet"]

CONTENT_TYPES: dict[str, Format] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/jsonlines": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


class RawRecord(Struct, frozen=True):
    """A record as it was sent. `textual`: every value is still text (CSV)."""

    line: int
    fields: dict[str, Any]
    textual: bool = False


class Unreadable(Struct, frozen=True):
    """A line that is no record at all."""

    line: int
    text: str
    reason: str


def format_of_content_type(header: str | None) -> Format:
    kind = (header or "application/json").partition(";")[0].strip().lower()
    if kind not in CONTENT_TYPES:
        raise InvalidInput(
            f"cannot read the content type {kind!r}",
            field="content-type",
            hint=f"send one of {', '.join(CONTENT_TYPES)}",
        )
    return CONTENT_TYPES[kind]


def format_of_file(name: str) -> Format:
    suffix = PurePath(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(
            f"cannot tell the format of {name!r} from its ending",
            field="file",
            hint=f"use one of {', '.join(SUFFIXES)}",
        )
    return SUFFIXES[suffix]


def read(body: bytes, kind: Format) -> Iterator[RawRecord | Unreadable]:
    """Records in the order they were sent; lines count from 1."""
    readers = {"json": _json, "jsonl": _json_lines, "csv": _csv, "parquet": _parquet}
    return readers[kind](body)


def read_message(
    line: int, value: bytes | None, kind: MessageFormat, columns: Sequence[str]
) -> RawRecord | Unreadable:
    """The one record of a message. CSV has no header line: values are in the columns' order."""
    if value is None:
        return Unreadable(line, "", "the message has no value")
    try:
        if kind == "json":
            return _object(line, msgspec.json.decode(value))
        rows = list(csv.reader(io.StringIO(value.decode(), newline=""), strict=True))
    except (msgspec.DecodeError, UnicodeDecodeError, csv.Error) as error:
        return Unreadable(line, value.decode(errors="replace"), f"not {kind.upper()}: {error}")
    if len(rows) != 1 or len(rows[0]) != len(columns):
        extent = f"{len(rows[0])} values" if len(rows) == 1 else f"{len(rows)} rows"
        reason = f"{extent}, where one row of {len(columns)} values is expected"
        return Unreadable(line, value.decode(), reason)
    return RawRecord(line, dict(zip(columns, rows[0], strict=True)), textual=True)


def _json(body: bytes) -> Iterator[RawRecord | Unreadable]:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"the body is not JSON: {error}",
            field="body",
            hint="one object, a list of objects, or JSON lines as application/x-ndjson",
        ) from None
    for line, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _object(line, item)


def _json_lines(body: bytes) -> Iterator[RawRecord | Unreadable]:
    for line, text in enumerate(body.splitlines(), start=1):
        if not text.strip():
            continue
        try:
            item = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            yield Unreadable(line, text.decode(errors="replace"), f"not JSON: {error}")
            continue
        yield _object(line, item)


def _object(line: int, item: Any) -> RawRecord | Unreadable:
    if isinstance(item, dict):
        return RawRecord(line, item)
    text = msgspec.json.encode(item).decode()
    return Unreadable(line, text, "a record must be a JSON object")


def _csv(body: bytes) -> Iterator[RawRecord | Unreadable]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the CSV is not UTF-8: {error}", field="body") from None
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(rows, None)
        if not header:
            raise InvalidInput("the CSV has no header line", field="body")
        names = [name.strip() for name in header]
        if len(set(names)) != len(names):
            raise InvalidInput("the CSV header names a column twice", field="body")
        for row in rows:
            if not row:
                continue
            if len(row) == len(names):
                yield RawRecord(rows.line_num, dict(zip(names, row, strict=True)), textual=True)
            else:
                reason = f"{len(row)} values for {len(names)} columns"
                yield Unreadable(rows.line_num, ",".join(row), reason)
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num}: not CSV: {error}", field="body") from None


def _parquet(body: bytes) -> Iterator[RawRecord | Unreadable]:
    try:
        table = pq.read_table(pa.BufferReader(body))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"the body is not Parquet: {error}", field="body") from None
    line = 0
    for batch in table.to_batches(max_chunksize=4096):
        for fields in batch.to_pylist():
            line += 1
            yield RawRecord(line, {name: _plain(value) for name, value in fields.items()})


def _plain(value: Any) -> Any:
    """A Parquet value as JSON would carry it; types are checked later like everyone else's."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        # Arrow hands maps out as pairs
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): _plain(item) for name, item in value}
        return [_plain(item) for item in value]
    return value
