"""How much of a request's body is read: the limits that readers of every format keep."""

from __future__ import annotations

from msgspec import Struct

from tocsin.errors import TooLarge
from tocsin.protocol.nesting import MOST_DEPTH

EXCERPT_CHARACTERS = 16 * 1024
"""So much of a record that was refused is kept with the reason."""
MOST_FIELDS = 10_000
"""A row of CSV has at most so many."""
TOO_DEEP = f"it nests deeper than {MOST_DEPTH} levels"
_WRITTEN_OUT = 4  # a record may be written so many times as long as it is kept: spaces, \\u0430


class Limits(Struct, frozen=True):
    """`records`: None if there may be any number, as in a file that is taken piece by piece."""

    records: int | None = None
    record_bytes: int = 1024 * 1024
    body_bytes: int = 64 * 1024 * 1024

    @property
    def text_bytes(self) -> int:
        """The longest text that may be a record."""
        return _WRITTEN_OUT * self.record_bytes

    def too_long(self) -> str:
        return f"it is longer than {self.text_bytes} bytes as it is written"

    def check_records(self, count: int) -> None:
        if self.records is not None and count > self.records:
            raise TooLarge(
                f"a request has at most {self.records} records",
                field="body",
                hint="send them in several requests, or raise request_records",
            )


def excerpt(text: bytes) -> tuple[str, int | None]:
    """The beginning of a record's text, and how many bytes the text has if that is not all."""
    beginning = text[:EXCERPT_CHARACTERS].decode(errors="replace")
    return beginning, len(text) if len(text) > EXCERPT_CHARACTERS else None
