"""What should be there and what is, side by side."""

from __future__ import annotations

from msgspec import Struct


class Compared(Struct, frozen=True):
    """A part of the backup, and what is in its place now."""

    part: str
    name: str
    count: int
    sha256: str
    restored_count: int
    restored_sha256: str

    @property
    def equal(self) -> bool:
        return (self.count, self.sha256) == (self.restored_count, self.restored_sha256)
