"""How the store waits, and does what it does by itself: by the machine's steady clock, on threads.

The fault simulation gives it another pace, in virtual time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

Act = Callable[[], float | None]
"""Returns after how many seconds it is to be done again; None: never."""
Pause = Callable[[float], bool]
"""Waits for so many seconds, or until whoever asks has ended; whether that was so."""


class Pace(Protocol):
    def now(self) -> float:
        """By a clock that is never set."""

    def sleep(self, seconds: float) -> None: ...

    def repeat(self, name: str, first_s: float, act: Act, pause: Pause) -> None:
        """Do it beside everything else, for the first time after `first_s`."""


class Threads:
    """A thread for whatever is repeated."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def repeat(self, name: str, first_s: float, act: Act, pause: Pause) -> None:
        def run() -> None:
            wait_s: float | None = first_s
            while wait_s is not None and not pause(wait_s):
                wait_s = act()

        threading.Thread(target=run, name=name, daemon=True).start()
