"""How long work says how far it is; who shows it is the command's business."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...
