"""Results that came, noted as cheaply as Python can, and handed on as a file of three columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from bench.sustain.shapes import clock_us

Column = NDArray[np.int64]


class Arrivals:
    """Thread-safe."""

    def __init__(self) -> None:
        self._numbers, self._due_us, self._came_us = array("q"), array("q"), array("q")
        self._lock = Lock()
        self.count = 0

    def came(self, number: int, due_us: int) -> None:
        self.came_all((number,), (due_us,))

    def came_all(self, numbers: Iterable[int], due_us: Iterable[int]) -> None:
        """All at this moment."""
        now_us = clock_us()
        with self._lock:
            before = len(self._numbers)
            self._numbers.extend(numbers)
            self._due_us.extend(due_us)
            added = len(self._numbers) - before
            self._came_us.extend([now_us] * added)
            self.count += added

    def count_from(self, first: int) -> int:
        """How many have that number or a higher one."""
        with self._lock:
            return int((np.array(self._numbers) >= first).sum())

    def save(self, file: Path) -> None:
        """All so far; then begin anew."""
        with self._lock:
            np.save(file, np.array([self._numbers, self._due_us, self._came_us], dtype=np.int64))
            self._numbers, self._due_us, self._came_us = array("q"), array("q"), array("q")
            self.count = 0


def load(files: Iterable[Path], first: int) -> tuple[Column, Column]:
    """When each record from `first` on was due, and came; the first time counts."""
    columns = np.concatenate([np.load(file) for file in files], axis=1)
    columns = columns[:, columns[0] >= first]
    columns = columns[:, np.argsort(columns[2], kind="stable")]
    _, at = np.unique(columns[0], return_index=True)
    return columns[1, at], columns[2, at]
