"""How long work tells how far it is: a bar in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_EVERY_S = 5.0


class Watch(AbstractContextManager["Watch"]):
    def __init__(self, console: Console, *, line_every_s: float = LINE_EVERY_S) -> None:
        self._console = console
        self._line_every_s = line_every_s
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description:<24}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
        self._task: TaskID | None = None
        self._what = ""
        self._done = self._total = 0
        self._written_at = 0.0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int) -> None:
        """A total of 0: it is not known how long this takes."""
        self._what, self._done, self._total = what, 0, total
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total or None)
        else:
            self._line(f"{what}: {total}" if total else f"{what} …")

    def advance(self, count: int) -> None:
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, count)
        elif self._done == self._total or self._late():
            self._line(f"{self._what}: {self._done} of {self._total}")

    def _late(self) -> bool:
        return time.monotonic() - self._written_at >= self._line_every_s

    def _line(self, text: str) -> None:
        self._written_at = time.monotonic()
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
