"""Dead letters: what is kept of records that did not fit, with the reason.

Whoever sends a million wrong records does not get a million letters written: a request has some in
full, and one that counts the rest. What a letter says of a record is its beginning, if it is long.
"""

from __future__ import annotations

import msgspec

from tocsin.intake.body_limits import EXCERPT_CHARACTERS
from tocsin.intake.formats import RawRecord, Unreadable
from tocsin.model import Column, Dataset
from tocsin.protocol import numbers
from tocsin.protocol.publishing import Rejection

Encoded = tuple[bytes, bytes | None]

DEAD_LETTERS = Dataset(
    name="dead_letters",
    columns=(
        Column("dataset", "STRING"),
        Column("publisher", "STRING"),
        Column("source", "STRING"),
        Column("line", "BIGINT"),
        Column("field", "STRING"),
        Column("reason", "STRING"),
        Column("record", "STRING"),
    ),
    retain_s=7 * 24 * 3600.0,
)
OWNED = f"{DEAD_LETTERS.name} belongs to the system: nobody else writes to it"
MOST_BYTES = 1024 * 1024
"""Of the letters that one request has in full."""
_REASON_CHARACTERS = 500
_FIELD_CHARACTERS = 255


class Letters:
    """Of one publication, as its records are refused. `most`: None if every record has its own."""

    def __init__(
        self, dataset: str, source: str, publisher: str, record_characters: int, most: int | None
    ) -> None:
        self.refused = 0
        self.rejections: list[Rejection] = []
        self._dataset = dataset
        self._source = source
        self._publisher = publisher
        self._characters = min(EXCERPT_CHARACTERS, record_characters)
        self._most = most
        self._letters: list[Encoded] = []
        self._bytes = 0
        self._first_counted: Rejection | None = None

    def add(self, raw: RawRecord | Unreadable, given: Rejection) -> None:
        self.refused += 1
        if self._first_counted is not None:
            return
        rejection = _shortened(given)
        full = self._most is not None and (
            len(self._letters) >= self._most or self._bytes >= MOST_BYTES
        )
        if full:
            self._first_counted = rejection
            return
        self.rejections.append(rejection)
        reason, record = self._kept(raw, rejection.reason)
        self._letters.append((self._letter(rejection, reason, record), None))
        self._bytes += len(self._letters[-1][0])

    def all(self) -> list[Encoded]:
        """With the one that counts the rest."""
        first = self._first_counted
        if first is None:
            return self._letters
        more = self.refused - len(self._letters)
        reason = (
            f"{more} more records of this request did not fit, and are counted here alone; the"
            f" first of them: {first.reason}"
        )
        return [*self._letters, (self._letter(first, reason, ""), None)]

    def _kept(self, raw: RawRecord | Unreadable, reason: str) -> tuple[str, str]:
        """The reason, with a word on what is not kept of the record; and what is."""
        if isinstance(raw, RawRecord):
            text = numbers.encode(raw.fields).decode()
            whole = len(text) if len(text) > self._characters else None
        else:
            text, whole = raw.text, raw.whole_bytes
            if whole is None and len(text) > self._characters:
                whole = len(text)
        if whole is None:
            return reason, text
        beginning = text[: self._characters]
        return f"{reason} (this is the record's beginning; it has {whole} characters)", beginning

    def _letter(self, rejection: Rejection, reason: str, record: str) -> bytes:
        return dead_letter(
            self._dataset,
            self._source,
            publisher=self._publisher,
            line=rejection.line,
            field=rejection.field,
            reason=reason,
            record=record,
        )


def _shortened(rejection: Rejection) -> Rejection:
    """Reasons name fields, which may be of any length."""
    reason, field = rejection.reason, rejection.field
    if len(reason) <= _REASON_CHARACTERS and len(field or "") <= _FIELD_CHARACTERS:
        return rejection
    if len(reason) > _REASON_CHARACTERS:
        reason = reason[:_REASON_CHARACTERS] + "…"
    return Rejection(rejection.line, reason, field and field[:_FIELD_CHARACTERS])


def dead_letter(
    dataset: str,
    source: str,
    *,
    reason: str,
    record: str,
    line: int,
    publisher: str | None = None,
    field: str | None = None,
) -> bytes:
    """A record of the dataset `dead_letters`. `line` is where it stood in its source."""
    return msgspec.json.encode(
        {
            "dataset": dataset,
            "publisher": publisher,
            "source": source,
            "line": line,
            "field": field,
            "reason": reason,
            "record": record,
        }
    )
