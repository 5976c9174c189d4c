"""The content store's words: bytes under the SHA-256 of themselves, so that equal bytes lie once.

What differs between media is in `Medium`; how bytes come in, and that they are what they are called
when they go out, is the same for all (`store`). Nobody here knows records, tokens or collection.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from tocsin.storage.identity import Mark

PIECE_BYTES = 256 * 1024


class Kept(NamedTuple):
    """Content that is there."""

    id: str
    size_bytes: int
    modified_at: float


class Medium(Protocol):
    """One that lies elsewhere and cannot be reached raises Unavailable, from every call."""

    incoming: Path  # a local directory, where bytes wait until their hash is known
    shown: str  # how people know the place

    def info(self, id: str) -> Kept | None:
        """None: it is not there."""

    def take(self, file: Path, id: str) -> None:
        """The whole of a local file, durable, becomes this content; the file itself may go.

        Nobody ever sees a part of it. What was there under this id is replaced.
        """

    def read(self, id: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes in [start, stop) as far as there are any, in pieces of up to `PIECE_BYTES`;
        FileNotFoundError if it is not there."""

    def drop(self, id: str) -> None:
        """It need not be there. Whoever reads it may go on, or fails."""

    def mark(self) -> Mark | None:
        """Whose this is, as far as somebody has said so."""

    def put_mark(self, mark: Mark) -> None:
        """Say whose it is, durably."""

    def kept(self) -> Iterator[Kept]:
        """All content, in no order."""
