"""Turn what a publisher sent (JSON, JSON lines, CSV, Parquet) into numbered raw records.

Knows no dataset: whether a record fits is `intake`'s question. A text that cannot even be read as
a record comes out as Unreadable with its line, so that the others are still taken.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tocsin.errors import InvalidInput
from tocsin.intake.body_limits import TOO_DEEP, Limits, excerpt
from tocsin.intake.csv_rows import csv_rows
from tocsin.intake.json_elements import BrokenArrayError, elements, first_byte
from tocsin.intake.parquet_records import parquet_records
from tocsin.intake.text_lines import text_lines
from tocsin.model import MessageFormat
from tocsin.protocol import numbers
from tocsin.protocol.nesting import MOST_DEPTH, too_deep

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


SMALL_BYTES = 64 * 1024
"""A body of JSON below this is decoded in one go."""
OPEN = Limits()
NO_OBJECT = "a record must be a JSON object"


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
    whole_bytes: int | None = None  # of the record, if `text` is its beginning alone


def unreadable(line: int, text: bytes, reason: str) -> Unreadable:
    beginning, whole_bytes = excerpt(text)
    return Unreadable(line, beginning, reason, whole_bytes)


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


def read(body: bytes, kind: Format, limits: Limits = OPEN) -> Iterator[RawRecord | Unreadable]:
    """Records in the order they were sent; lines count from 1. Each is read when it is asked for,
    so that whoever asks on a thread leaves room for others."""
    readers = {"json": _json, "jsonl": _json_lines, "csv": _csv, "parquet": _parquet}
    for count, record in enumerate(readers[kind](body, limits), start=1):
        limits.check_records(count)
        yield record


def read_message(
    line: int, value: bytes | None, kind: MessageFormat, columns: Sequence[str]
) -> RawRecord | Unreadable:
    """The one record of a message. CSV has no header line: values are in the columns' order."""
    if value is None:
        return Unreadable(line, "", "the message has no value")
    if kind == "json":
        return _record(line, value, OPEN)
    try:
        rows = list(csv.reader(io.StringIO(value.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        return unreadable(line, value, f"not {kind.upper()}: {error}")
    if len(rows) != 1 or len(rows[0]) != len(columns):
        extent = f"{len(rows[0])} values" if len(rows) == 1 else f"{len(rows)} rows"
        reason = f"{extent}, where one row of {len(columns)} values is expected"
        return unreadable(line, value, reason)
    return RawRecord(line, dict(zip(columns, rows[0], strict=True)), textual=True)


def _json(body: bytes, limits: Limits) -> Iterator[RawRecord | Unreadable]:
    if len(body) < SMALL_BYTES and not too_deep(body):
        return _small_json(body)
    if first_byte(body) == b"[":
        return _json_array(body, limits)
    return iter([_record(1, body, limits, _not_json)])


def _small_json(body: bytes) -> Iterator[RawRecord | Unreadable]:
    try:
        value = numbers.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json(error) from None
    for line, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _object(line, item)


def _json_array(body: bytes, limits: Limits) -> Iterator[RawRecord | Unreadable]:
    try:
        for line, (start, end, depth) in enumerate(elements(body), start=1):
            if end - start > limits.text_bytes:
                yield unreadable(line, body[start:end], limits.too_long())
            elif depth > MOST_DEPTH:
                yield unreadable(line, body[start:end], TOO_DEEP)
            else:
                yield _decoded(line, body[start:end], _not_json)
    except BrokenArrayError as error:
        raise _not_json(error) from None


def _not_json(error: Exception) -> InvalidInput:
    return InvalidInput(
        f"the body is not JSON: {error}",
        field="body",
        hint="one object, a list of objects, or JSON lines as application/x-ndjson",
    )


def _json_lines(body: bytes, limits: Limits) -> Iterator[RawRecord | Unreadable]:
    for line, text in text_lines(body):
        if text and not text.isspace():
            yield _record(line, text, limits)


def _record(
    line: int,
    text: bytes,
    limits: Limits,
    wrong: Callable[[Exception], Exception] | None = None,
) -> RawRecord | Unreadable:
    """One record in JSON. `wrong`: what to raise if it is no JSON at all."""
    if len(text) > limits.text_bytes:
        return unreadable(line, text, limits.too_long())
    if too_deep(text):
        return unreadable(line, text, TOO_DEEP)
    return _decoded(line, text, wrong)


def _decoded(
    line: int, text: bytes, wrong: Callable[[Exception], Exception] | None
) -> RawRecord | Unreadable:
    try:
        item = numbers.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if wrong is not None:
            raise wrong(error) from None
        return unreadable(line, text, f"not JSON: {error}")
    if isinstance(item, dict):
        return RawRecord(line, item)
    return unreadable(line, text.strip(), NO_OBJECT)


def _object(line: int, item: Any) -> RawRecord | Unreadable:
    if isinstance(item, dict):
        return RawRecord(line, item)
    return unreadable(line, numbers.encode(item), NO_OBJECT)


def _csv(body: bytes, limits: Limits) -> Iterator[RawRecord | Unreadable]:
    rows = csv_rows(body, limits)
    _, header = next(rows, (0, []))
    if not header:
        raise InvalidInput("the CSV has no header line", field="body")
    names = [name.strip() for name in header]
    if len(set(names)) != len(names):
        raise InvalidInput("the CSV header names a column twice", field="body")
    for line, row in rows:
        if not row:
            continue
        if len(row) == len(names):
            yield RawRecord(line, dict(zip(names, row, strict=True)), textual=True)
        else:
            reason = f"{len(row)} values for {len(names)} columns"
            yield unreadable(line, ",".join(row).encode(errors="replace"), reason)


def _parquet(body: bytes, limits: Limits) -> Iterator[RawRecord | Unreadable]:
    for line, fields in enumerate(parquet_records(body, limits), start=1):
        yield RawRecord(line, fields)
