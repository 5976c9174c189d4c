"""How long work says how far it is; who shows it is the command's business."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def watched(progress: Progress, what: str, items: Collection[T]) -> Iterator[T]:
    """The items; whoever watches hears of each that is done."""
    if items:
        progress.begin(what, len(items))
    for item in items:
        yield item
        progress.advance(1)
