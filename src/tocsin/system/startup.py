"""Whether a process that was started serves yet: asked until it does, ends, or its time is over.

Never sleeps, so that those who wait with and without asyncio share it.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from tocsin.errors import Unavailable

START_LIMIT_S = 120.0


class Log:
    """What a process has written since it was started last."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._from = 0
        self._last_end = ""  # why it ended, if this is not its first start

    def mark(self, *, again: bool = False) -> None:
        """It is started now: what is older does not concern it. `again`: because it ended."""
        self._last_end = self.why() if again else ""
        self._from = self.file.stat().st_size if self.file.exists() else 0

    def written(self) -> str:
        if not self.file.exists():
            return ""
        return self.file.read_bytes()[self._from :].decode(errors="replace")

    def why(self) -> str:
        """The line that most likely says why it failed."""
        lines = [line.strip() for line in self.written().splitlines() if line.strip()]
        for telling in (r"(Exception|Error): \S", r"(?i)error|fatal"):
            for line in lines:
                if re.search(telling, line):
                    return line
        return self._last_end or (lines[-1] if lines else "it said nothing")


class Startup:
    def __init__(self, title: str, log: Log, limit_s: float = START_LIMIT_S) -> None:
        self._title = title
        self._log = log
        self._limit_s = limit_s
        self.postpone()

    def postpone(self) -> None:
        """It waits for something outside, which is not its fault: its time begins anew."""
        self._deadline = time.monotonic() + self._limit_s

    def check(self, *, alive: bool) -> None:
        """Raise if there is nothing to wait for any more."""
        if not alive:
            raise self._failed("ended while it started")
        if time.monotonic() > self._deadline:
            raise self._failed(f"did not answer within {self._limit_s:.0f} s")

    def _failed(self, what: str) -> Unavailable:
        return Unavailable(
            f"{self._title} {what}: {self._log.why()}", hint=f"its log is {self._log.file}"
        )
