"""How the demo tells what it is doing: a live bar in a terminal, plain lines elsewhere.

Knows figures only; where they come from is the driver's business.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 5.0


class Glance(Struct, frozen=True, kw_only=True):
    """The figures of this moment."""

    elapsed_s: float  # of the course, as played
    published: int
    displayed: int
    online: int
    subscriptions: int
    hit_ratio: float | None

    def line(self, clock: str) -> str:
        hits = "-" if self.hit_ratio is None else f"{self.hit_ratio:.0%}"
        return (
            f"{clock}  published {self.published:,}  delivered {self.displayed:,}  "
            f"online {self.online}  hit ratio {hits}"
        )


class Show(AbstractContextManager["Show"]):
    """What happens, told to `console`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[figures]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
        self._task: TaskID | None = None
        self._written_at = 0.0
        self._wishes = 0
        self._duration_s = 0.0
        self._speed = 1.0

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def line(self, text: str = "") -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)

    def note(self, text: str) -> None:
        self.line(text)
        self._begin(text.partition(":")[0], None)

    def starting(self) -> None:
        self._begin("starting", None)
        self.line("starting the services (Spark takes some seconds) …")

    def service(self, name: str, url: str) -> None:
        self.line(f"  {name:<12} {url}")

    def token(self, token: str) -> None:
        self.line(f"  {'token':<12} {token}")

    def opening(self, wishes: int) -> None:
        self._wishes = wishes
        self.line(f"opening: {wishes:,} subscriptions are made …")
        self._begin("opening", float(wishes))

    def course(self, duration_s: float, speed: float) -> None:
        self._duration_s, self._speed = duration_s, speed
        hours = _clock(duration_s * speed)
        self.line(f"the city's clock starts: it will show {hours} after {duration_s:g} s here")
        self._begin("the city", duration_s)

    def stopping(self) -> None:
        self._begin("stopping the services", None)

    def glance(self, figures: Glance) -> None:
        """Now and then; a terminal shows each, a file a line every few seconds."""
        opening = self._duration_s == 0.0
        clock = (
            f"{figures.subscriptions:,} of {self._wishes:,} subscriptions"
            if opening
            else _clock(figures.elapsed_s * self._speed)
        )
        if self._progress is not None and self._task is not None:
            done = figures.subscriptions if opening else figures.elapsed_s
            self._progress.update(self._task, completed=done, figures=figures.line(clock))
        elif self._progress is None and time.monotonic() - self._written_at >= LINE_EVERY_S:
            self._written_at = time.monotonic()
            self.line("  " + figures.line(clock))

    def _begin(self, what: str, total: float | None) -> None:
        if self._progress is None:
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total, figures="")


def _clock(seconds: float) -> str:
    """Seconds of the trace as hours and minutes."""
    minutes = int(seconds) // 60
    return f"{minutes // 60}:{minutes % 60:02d}"
