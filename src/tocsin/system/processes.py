"""Processes by identity: a process id and its start, so that a reused id is never signalled.

psutil finds and signals them. Waiting is our own: psutil would take the exit code from whoever
started the process, and wait in vain for the dead whose parent never asks. Knows nothing of what
the processes do.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import psutil

from tocsin.errors import Unavailable

POLL_S = 0.02
STOP_LIMIT_S = 20.0
SAME_START_S = 5.0
"""Starts that differ by less are the same: they are computed from the wall clock, which is set now
and then. No process id is reused so soon after its process began."""


def unsupported() -> str | None:
    """Why servers cannot be run here at all; None if they can."""
    return None if psutil.LINUX else "servers are run on Linux alone"


class Process(msgspec.Struct, frozen=True):
    pid: int
    started: float
    """In seconds since the epoch."""

    @classmethod
    def of(cls, pid: int) -> Process:
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            raise ProcessLookupError(pid) from None

    @property
    def alive(self) -> bool:
        """A dead one that nobody has waited for yet is not alive; one whose last threads are still
        ending is, because it may hold its port."""
        process = self._process()
        if process is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.status() not in _DEAD or process.num_threads() > 1
        return False

    @property
    def paused(self) -> bool:
        process = self._process()
        with contextlib.suppress(psutil.NoSuchProcess):
            return process is not None and process.status() in _PAUSED
        return False

    def family(self) -> list[Process]:
        """Itself and all its descendants, wherever they have put themselves; none if it is gone."""
        process = self._process()
        if process is None or not self.alive:
            return []
        family = [self]
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    family.append(Process(child.pid, child.create_time()))
        return family

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone; nothing happens if it is gone."""
        process = self._process()
        if process is None or not self.alive:
            return
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            pass
        except psutil.AccessDenied:
            raise Unavailable(
                f"process {self.pid} belongs to another user",
                hint="call this as the one who started it",
            ) from None

    def pause(self) -> None:
        """Stop the family's clock, and wait until all stand still."""
        family = self.family()
        _send_all(family, signal.SIGSTOP)
        deadline = time.monotonic() + STOP_LIMIT_S
        while any(process.alive and not process.paused for process in family):
            if time.monotonic() > deadline:
                raise Unavailable(f"process {self.pid} does not stand still")
            time.sleep(POLL_S)

    def resume(self) -> None:
        _send_all(self.family(), signal.SIGCONT)

    def kill(self) -> None:
        """kill -9 of the whole family, and wait until it is gone."""
        family = self.family()
        _send_all(family, signal.SIGKILL)
        for process in family:
            if not process.wait(STOP_LIMIT_S):
                raise Unavailable(f"process {process.pid} does not die of SIGKILL")

    def stop(self, gently: signal.Signals, *, limit_s: float = STOP_LIMIT_S) -> None:
        """Ask it to end, wait, and kill it if it does not."""
        self.send(gently)
        if self.paused:
            self.resume()  # it would not hear
        if not self.wait(limit_s):
            self.kill()

    def wait(self, limit_s: float) -> bool:
        """Wait for its end; whether that came."""
        deadline = time.monotonic() + limit_s
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _process(self) -> psutil.Process | None:
        """Whoever has the id, if that is the one that was meant."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started) < SAME_START_S:
                return process
        return None


_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_PAUSED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def processes_in(folder: Path) -> list[Process]:
    """Those whose working directory it is."""
    return [
        Process(process.pid, process.info["create_time"])
        for process in psutil.process_iter(["cwd", "create_time"])
        if process.info["cwd"] == str(folder)
    ]


def _send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        process.send(number)
