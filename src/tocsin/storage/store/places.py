"""Where a process runs, so that another can tell for certain that it has ended.

Certain is only who is looked for on the same boot of the same machine, in the same namespace of
processes. Of all others nothing is known.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@cache
def _machine() -> str:
    """This boot, and the namespace in which numbers of processes mean something; empty: unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def own_process() -> str:
    """For people."""
    return f"process {os.getpid()} on {socket.gethostname()[:64]}"


def own_place() -> str:
    return f"{_machine()}:{os.getpid()}:{_started(os.getpid())}"


def is_gone(place: str) -> bool:
    """Whether the process has certainly ended; one that is frozen has not."""
    machine, _, rest = place.rpartition(":")[0].rpartition(":")
    started = place.rpartition(":")[2]
    if not machine or machine != _machine() or not rest.isdigit():
        return False
    return _started(int(rest)) != started


def _started(pid: int) -> str:
    """When it was started, in ticks since the boot: numbers of processes are used again."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return "-"
    state, *fields = text.rpartition(")")[2].split()
    return "-" if state in "ZX" else fields[18]
