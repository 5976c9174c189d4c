"""Processes by identity: a process id and its start, so that a reused id is never signalled.

Reads Linux' /proc. Knows nothing of what the processes do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tocsin.errors import Unavailable

POLL_S = 0.02
STOP_LIMIT_S = 20.0
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


def unsupported() -> str | None:
    """Why servers cannot be run here at all; None if they can."""
    return None if (_PROC / "self" / "stat").exists() else "servers are run on Linux alone (/proc)"


class Command(msgspec.Struct, frozen=True):
    """What to start, and how."""

    words: list[str]
    log: str
    """File that gets all it prints, at the end."""
    environment: dict[str, str] = {}
    """Besides our own."""
    user: str = ""
    """Whom it runs as, when we are root; empty: ourselves."""


class Process(msgspec.Struct, frozen=True):
    pid: int
    started: int
    """In clock ticks since the machine's start."""
    boot: str
    """Which start of the machine that was."""

    @classmethod
    def of(cls, pid: int) -> Process:
        told = _stat(pid)
        if told is None:
            raise ProcessLookupError(pid)
        return cls(pid, told.started, _boot())

    @property
    def alive(self) -> bool:
        """A dead one that nobody has waited for yet is not alive; one whose last threads are still
        ending is, because it may hold its port."""
        told = self._stat()
        return told is not None and (told.state not in "ZX" or told.threads > 1)

    @property
    def paused(self) -> bool:
        told = self._stat()
        return told is not None and told.state in "Tt"

    def family(self) -> list[Process]:
        """Itself and all its descendants, wherever they have put themselves; none if it is gone."""
        if not self.alive:
            return []
        told = {int(one.name): _stat(int(one.name)) for one in _PROC.glob("[0-9]*")}
        found = [self]
        for parent in found:  # grows while we look
            found += [
                Process(pid, stat.started, self.boot)
                for pid, stat in told.items()
                if stat is not None and stat.parent == parent.pid
            ]
        return found

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone; nothing happens if it is gone."""
        if not self.alive:
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
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

    def _stat(self) -> _Stat | None:
        told = _stat(self.pid)
        if told is None or told.started != self.started or self.boot != _boot():
            return None
        return told


def processes_in(folder: Path) -> list[Process]:
    """Those whose working directory it is."""
    found = []
    for entry in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, dead or somebody else's
            if (entry / "cwd").readlink() == folder:
                found.append(Process.of(int(entry.name)))
    return found


class Launcher(Protocol):
    """Who starts processes, and thereby decides how long they live."""

    def start(self, command: Command) -> Process: ...


class Detached:
    """Starts processes that outlive us."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, command: Command) -> Process:
        self._children.append(popen(command))
        return Process.of(self._children[-1].pid)


def popen(command: Command, *, tied: bool = False) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own; a tied one is killed when we die."""
    with Path(command.log).open("ab") as log:
        return subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, **command.environment},
            start_new_session=True,
            preexec_fn=_die_with_parent if tied else None,
            user=command.user or None,
            group=_group(command.user),
            extra_groups=[] if command.user else None,
        )


def run(words: list[str], *, user: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd="/",
        user=user or None,
        group=_group(user),
        extra_groups=[] if user else None,
    )


def _group(user: str) -> int | None:
    return pwd.getpwnam(user).pw_gid if user else None


def _die_with_parent() -> None:
    """Runs between fork and exec, after the user was changed (which would undo it)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        process.send(number)


class _Stat(NamedTuple):
    state: str
    parent: int
    threads: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        told = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    words = told[told.rindex(")") + 2 :].split()  # the name before may hold anything
    return _Stat(words[0], int(words[1]), int(words[17]), int(words[19]))


def _boot() -> str:
    return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
