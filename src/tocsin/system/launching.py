"""How processes are started: with a log file, in a session of their own, for as long as they should
live."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
from pathlib import Path
from typing import Protocol

import msgspec

from tocsin.system.processes import Process

_PR_SET_PDEATHSIG = 1


class Command(msgspec.Struct, frozen=True):
    """What to start, and how."""

    words: list[str]
    log: str
    """File that gets all it prints, at the end."""
    environment: dict[str, str] = {}
    """Besides our own."""
    hidden: str = ""
    """Variables of ours that begin so are not passed on."""
    user: str = ""
    """Whom it runs as, when we are root; empty: ourselves."""
    folder: str = "/"


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


def popen(
    command: Command, *, stdin: int = subprocess.DEVNULL, dies_with_us: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own: Ctrl-C reaches us alone.

    One that dies with us is killed by the kernel when the thread ends that started it. A gentler
    way, for programs that know of it: with a PIPE as `stdin`, their input ends when we do.
    """
    hidden = command.hidden
    ours = {k: v for k, v in os.environ.items() if not (hidden and k.startswith(hidden))}
    Path(command.log).parent.mkdir(parents=True, exist_ok=True)
    with Path(command.log).open("ab") as log:
        return subprocess.Popen(
            command.words,
            stdin=stdin,
            stdout=log,
            stderr=log,
            cwd=command.folder,
            env=ours | command.environment,
            start_new_session=True,
            preexec_fn=_die_with_parent if dies_with_us else None,
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
