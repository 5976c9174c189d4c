"""Clocks of single processes that can be set while they run, by a small library that is preloaded.

It answers a process's questions for the time of day; durations (the monotonic clock) stay true.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tocsin.errors import Unavailable

PACKAGES = ("gcc", "libc6-dev")
SOURCE = Path(__file__).with_name("clock.c")


def missing() -> str | None:
    """What this machine lacks; None: nothing."""
    return None if shutil.which("gcc") else "a C compiler"


def build(directory: Path) -> Path:
    """The library, made from its source."""
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / "clock.so"
    words = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode != 0:
        raise Unavailable(f"the library of clocks could not be made: {made.stderr.strip()}")
    return library


def environment(library: Path, clock: Path) -> dict[str, str]:
    """For a process whose clock is the file `clock`: "+5" there sets it five seconds ahead."""
    put(clock, 0)
    return {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(clock)}


def put(clock: Path, by_s: int) -> None:
    """Whole or not at all: it may be read at any time."""
    fresh = clock.with_suffix(".new")
    fresh.write_text(f"{by_s:+d}\n")
    fresh.replace(clock)
