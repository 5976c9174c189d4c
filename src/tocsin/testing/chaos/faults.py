"""What is done to a system during a chaos run: each fault begins, and ends.

A target is a process, a server, a line between two of them, a disk or a clock. What this machine
does not allow is said, and left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import psutil

from tocsin.dev.server import Server
from tocsin.system import System
from tocsin.system.processes import Process
from tocsin.testing.chaos import clocks
from tocsin.testing.chaos.plan import Kind
from tocsin.testing.chaos.proxy import Mode, Proxy

PAUSE_S = 6.0
LEADER_AWAY_S = 12.0  # longer than its lease
CUT_S = 6.0
SERVER_AWAY_S = 8.0
FULL_S = 6.0
STEP_S = 12.0  # for how long a clock is wrong
STEPS_S = (-45, -5, 5, 45)
"""By how much. Tokens and signatures bear a minute."""


class Fault(Protocol):
    kind: Kind

    async def begin(self) -> None: ...

    async def end(self) -> None:
        """Afterwards the target is well, or gets well by itself."""


class KillService:
    def __init__(self, system: System, service: str) -> None:
        self.kind = Kind(f"kill {service}", service)
        self._system = system
        self._service = service

    async def begin(self) -> None:
        await self._system.kill(self._service)

    async def end(self) -> None:
        pass  # its supervisor starts it again


class PauseProcess:
    """SIGSTOP: it hangs, and does not know for how long."""

    def __init__(self, name: str, pid: Callable[[], int | None], target: str = "") -> None:
        self.kind = Kind(f"pause {name}", target or name, PAUSE_S)
        self._pid = pid
        self._paused: Process | None = None

    async def begin(self) -> None:
        pid = self._pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                self._paused = Process.of(pid)
                self._paused.pause()

    async def end(self) -> None:
        if self._paused is not None:
            self._paused.resume()
            self._paused = None


class OnLeader:
    """What is done to whichever cluster leads when it begins; nothing if none does."""

    def __init__(
        self, what: str, system: System, fault_of: Callable[[str], Fault], longest_s: float = 0.0
    ) -> None:
        self.kind = Kind(f"{what} the leader", "leader", longest_s)
        self._system = system
        self._fault_of = fault_of
        self._fault: Fault | None = None
        self.begun_at: list[float] = []

    async def begin(self) -> None:
        leader = await self._system.leader()
        if leader is not None:
            self._fault = self._fault_of(leader)
            self.begun_at.append(time.monotonic())
            await self._fault.begin()

    async def end(self) -> None:
        if self._fault is not None:
            await self._fault.end()
            self._fault = None


class KillJava:
    """The cluster starts another."""

    kind = Kind("kill Java", "cluster")

    def __init__(self, system: System) -> None:
        self._system = system

    async def begin(self) -> None:
        pid = java_of(self._system)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def end(self) -> None:
        pass


class KillServer:
    """A server of others: it is killed, is away, and comes back with its data."""

    def __init__(self, server: Server) -> None:
        self.kind = Kind(f"kill {server.title}", server.title, SERVER_AWAY_S)
        self._server = server

    async def begin(self) -> None:
        await asyncio.to_thread(self._server.kill)

    async def end(self) -> None:
        await asyncio.to_thread(self._server.start)


class PauseServer:
    def __init__(self, server: Server) -> None:
        self.kind = Kind(f"pause {server.title}", server.title, PAUSE_S)
        self._server = server

    async def begin(self) -> None:
        await asyncio.to_thread(self._server.pause)

    async def end(self) -> None:
        await asyncio.to_thread(self._server.resume)


class BreakLine:
    def __init__(self, name: str, proxy: Proxy, mode: Mode) -> None:
        what = {"cut": "cut", "stalled": "stall", "mute": "lose answers of"}[mode]
        self.kind = Kind(f"{what} {name}", name, CUT_S)
        self._proxy = proxy
        self._mode: Mode = mode

    async def begin(self) -> None:
        self._proxy.set(self._mode)

    async def end(self) -> None:
        self._proxy.set("cut")  # what was in doubt stays so
        self._proxy.set("open")


class FillDisk:
    kind = Kind("fill the disk", "disk", FULL_S)

    def __init__(self, disk: Path) -> None:
        self._ballast = disk / "ballast"

    async def begin(self) -> None:
        await asyncio.to_thread(fill, self._ballast)

    async def end(self) -> None:
        self._ballast.unlink(missing_ok=True)


class StepClock:
    def __init__(self, service: str, clock: Path, by_s: int) -> None:
        self.kind = Kind(
            f"set the clock of {service} by {by_s:+d} s", f"clock of {service}", STEP_S
        )
        self._clock = clock
        self._by_s = by_s

    async def begin(self) -> None:
        clocks.put(self._clock, self._by_s)

    async def end(self) -> None:
        clocks.put(self._clock, 0)


def java_of(system: System) -> int | None:
    """The process of the cluster's Java; None: it has none at the moment."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        for child in psutil.Process(system.pid("cluster")).children():
            if child.name() == "java":
                return child.pid
    return None


def fill(ballast: Path) -> None:
    """To the last byte."""
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), b"\0" * size)


@contextlib.contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[bool]:
    """A file system of its own at `place`, if this machine lets us mount one."""
    place.mkdir(parents=True, exist_ok=True)
    options = f"size={size_bytes}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)
