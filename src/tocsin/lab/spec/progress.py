"""Who watches long work: what it does now, how much of it there is, how much is done."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...
