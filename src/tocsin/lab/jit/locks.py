"""One process at a time compiles a module's kernels; the others wait, and load what it kept.

Spark's workers and parallel commands otherwise compile the same kernels at the same time, each for
itself. Whoever is killed gives its lock back: the operating system holds it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


class PlaceLock:
    """Of one directory of compiled functions. A kernel's compilation compiles what it calls, so a
    thread may enter again. Modules that call each other import one another, and imports form no
    cycle: neither do waits."""

    def __init__(self, place: Path) -> None:
        self._file = place / "lock"
        self._threads = threading.RLock()
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._threads:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o666) if not self._depth else None
            self._depth += 1
            try:
                if handle is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                self._depth -= 1
                if handle is not None:
                    os.close(handle)


@cache
def lock_of(place: Path) -> PlaceLock:
    return PlaceLock(place)
