"""Rows of a CSV body, read a line at a time: never more than a row is held."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from tocsin.errors import InvalidInput, TooLarge
from tocsin.intake.body_limits import MOST_FIELDS, Limits

_FIELD_TOO_LARGE = "field larger than field limit"


class _Lines:
    """The text's lines, as csv asks for them. Quotes may hold many lines in one row: how long a row
    becomes is watched here."""

    def __init__(self, body: bytes, most_characters: int) -> None:
        self._text = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")
        self._most = most_characters
        self._left = most_characters
        self.number = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(self._left + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._left -= len(line)
        if self._left < 0:
            raise TooLarge(
                f"line {self.number}: a row has at most {self._most} characters",
                field="body",
                hint="look for a quote that is never closed, or raise record_limit_bytes",
            )
        return line

    def next_row(self) -> None:
        self._left = self._most


def csv_rows(body: bytes, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    """The header and the rows behind it, each with the line on which it ends."""
    lines = _Lines(body, limits.text_bytes)
    rows = csv.reader(lines, strict=True)
    try:
        for row in rows:
            lines.next_row()
            if len(row) > MOST_FIELDS:
                raise TooLarge(
                    f"line {rows.line_num}: a row of CSV has at most {MOST_FIELDS} fields",
                    field="body",
                    hint="send such records as JSON",
                )
            yield rows.line_num, row
    except csv.Error as error:
        hint = None
        if _FIELD_TOO_LARGE in str(error):
            hint = "send records with such long fields as JSON"
        message = f"line {rows.line_num}: not CSV: {error}"
        raise InvalidInput(message, field="body", hint=hint) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the CSV is not UTF-8: {error}", field="body") from None
