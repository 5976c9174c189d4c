"""CPU time by process: of those we started, and of what these started in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import psutil

LOOK_S, QUIET_PERCENT = 2.0, 25.0
OTHERS = "others on this machine"


class Cpu:
    """`roots`: names and process ids; several may share a name. A Java that one of them started is
    counted as `Java`, and what Java started as `Java's Python`; other children as their root."""

    def __init__(self, roots: Sequence[tuple[str, int]]) -> None:
        self._roots = roots
        self._used: dict[int, tuple[str, float]] = {}  # by process: those that ended stay

    def seconds(self) -> dict[str, float]:
        """User and system time so far, by name; of `OTHERS`, all that the machine did besides."""
        for name, pid in self._roots:
            try:
                root = psutil.Process(pid)
                self._note(name, root)
                for child in root.children():
                    self._note_family(name, child)
            except psutil.NoSuchProcess:
                continue
        machine = psutil.cpu_times()
        busy_s = sum(machine[:3]) + sum(machine[5:8])  # not idle, nor waiting for a disk
        sums: dict[str, float] = {}
        for name, used in self._used.values():
            sums[name] = sums.get(name, 0.0) + used
        return {**sums, OTHERS: busy_s - sum(sums.values())}

    def _note_family(self, name: str, child: psutil.Process) -> None:
        try:
            own = "Java" if child.name() == "java" else name
            self._note(own, child)
            for process in child.children(recursive=True):
                self._note("Java's Python" if own == "Java" else own, process)
        except psutil.NoSuchProcess:
            pass

    def _note(self, name: str, process: psutil.Process) -> None:
        times = process.cpu_times()
        self._used[process.pid] = name, times.user + times.system


async def quiet(patience_s: float) -> None:
    """Wait, so long at most, until the machine is nearly idle for a while."""
    limit = time.monotonic() + patience_s
    while time.monotonic() < limit:
        psutil.cpu_percent()
        await asyncio.sleep(LOOK_S)
        if psutil.cpu_percent() < QUIET_PERCENT:
            return


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: used - before.get(name, 0.0) for name, used in after.items()}
