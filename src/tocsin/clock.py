"""The clock of a cluster: times that are written down, and times by which something is deleted.

Wall clocks are set, forward and back, on any machine and at any time; how long something takes is
measured by the machine's steady clock. `now` is the wall clock's time, except that it never goes
back: after a step back it goes on, a little slower, until the wall clock has caught up. So windows
neither overlap nor stand still. `trusted` goes forward no faster than the steady clock, so that a
step forward makes nothing look old. It gives way only when the wall clock has kept to its opinion
for the time of doubt, in which somebody can look.

Pure but for the two clocks that it is given. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog
from msgspec import Struct

log = structlog.get_logger()

CATCHING_UP = 0.9  # of the steady clock's speed, while the wall clock is behind
TOLERANCE_S = 60.0  # clocks that differ by less are only set right a little
DOUBT_S = 3600.0


class ClockMark(Struct, frozen=True):
    """What a cluster leaves for the one that follows it: its trusted time, and when that was by the
    steady clock of one boot of a machine."""

    trusted: float
    steady: float
    boot: str

    @classmethod
    def decode(cls, text: str) -> Self:
        trusted, steady, boot = [*text.split(" "), ""][:3]
        return cls(float(trusted), float(steady), boot)

    def encode(self) -> str:
        return f"{self.trusted!r} {self.steady!r} {self.boot}".rstrip()


def steady_clock() -> float:
    """Seconds since the machine was started; it goes on while the machine sleeps, if it can."""
    source = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if source is None else time.clock_gettime(source)


def boot_of_machine() -> str:
    """Of which start of which machine `steady_clock` is the time; empty: unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Clock:
    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady_clock,
        *,
        boot: str = "",
        left: ClockMark | None = None,
        doubt_s: float = DOUBT_S,
    ) -> None:
        """`left`: what was left by the one before. Without it the wall clock is believed."""
        self._wall = wall
        self._steady = steady
        self._boot = boot
        self._doubt_s = doubt_s
        self._lock = threading.Lock()
        self._read_at = steady()
        self._now = wall()
        self._trusted = self._now if left is None else min(self._now, self._follow(left))
        self._doubted: tuple[float, float] | None = None  # since when, and wall minus steady then
        with self._lock:
            self._look()

    def now(self) -> float:
        """For stamps, windows and ticks. Later than whatever it has given before."""
        with self._lock:
            self._look()
            return self._now

    def trusted(self) -> float:
        """For what is deleted because it is old. Never ahead of `now`."""
        with self._lock:
            self._look()
            return self._trusted

    def reach(self, at: float) -> None:
        """A time that was written down before: `now` is not before it any more."""
        with self._lock:
            self._look()
            self._now = max(self._now, at)

    def mark(self) -> ClockMark:
        with self._lock:
            self._look()
            return ClockMark(self._trusted, self._read_at, self._boot)

    @property
    def ahead_s(self) -> float:
        """By how much the wall clock is ahead of what is trusted; 0: it is believed."""
        with self._lock:
            self._look()
            return 0.0 if self._doubted is None else self._wall() - self._trusted

    def _follow(self, left: ClockMark) -> float:
        """After another boot nobody knows how much time has passed."""
        if not left.boot or left.boot != self._boot:
            return left.trusted
        return left.trusted + max(0.0, self._read_at - left.steady)

    def _look(self) -> None:
        steady, wall = self._steady(), self._wall()
        passed_s = max(0.0, steady - self._read_at)
        self._read_at = max(steady, self._read_at)
        self._now = max(wall, self._now + CATCHING_UP * passed_s)
        self._trusted = min(wall, self._trusted + passed_s)
        self._doubt(wall, steady)

    def _doubt(self, wall: float, steady: float) -> None:
        if wall - self._trusted <= TOLERANCE_S:
            if self._doubted is not None:
                log.info("the clock is as it was expected again")
            self._doubted = None
            return
        kept = self._doubted is not None and (abs(wall - steady - self._doubted[1]) <= TOLERANCE_S)
        if self._doubted is None or not kept:
            self._doubted = (steady, wall - steady)
            log.warning(
                "the clock is ahead of the time that is known to have passed",
                ahead_s=round(wall - self._trusted),
                meaning="it was set forward, or the cluster stood still for so long: what is kept"
                " for a time is not deleted by this clock yet",
                believed_after_s=self._doubt_s,
            )
        since, _ = self._doubted
        if steady - since >= self._doubt_s:
            self._trusted, self._doubted = wall, None
