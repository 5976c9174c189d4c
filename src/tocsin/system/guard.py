"""A guard process that starts servers and takes them with it when its owner ends, however it ends.

    python -m tocsin.system.guard DIRECTORY

The owner holds the other end of the guard's standard input: the kernel closes it even after a
`kill -9`. Then the guard kills what it started and removes the directory. If the guard itself is
killed, the kernel kills the servers.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tocsin.errors import Unavailable
from tocsin.system.launching import Command, popen
from tocsin.system.processes import Process

REMOVE_LIMIT_S = 10.0


class Guard:
    """The owner's side: starts processes that do not outlive us."""

    def __init__(self, directory: Path) -> None:
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tocsin.system.guard", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the owner
        )

    @property
    def pid(self) -> int:
        return self._guard.pid

    def start(self, command: Command) -> Process:
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        try:
            self._guard.stdin.write(msgspec.json.encode(command) + b"\n")
            self._guard.stdin.flush()
            answer = self._guard.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise Unavailable("the guard of the servers has died")
        started = msgspec.json.decode(answer, type=Process | str)
        if isinstance(started, str):
            raise Unavailable(started)
        return started

    def close(self) -> None:
        """Kill everything that was started, and remove the directory."""
        with contextlib.suppress(BrokenPipeError):
            self._guard.communicate()


def main() -> None:
    directory = Path(sys.argv[1])
    # However our owner had them set: a person who ends the guard means it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    children: list[subprocess.Popen[bytes]] = []
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            if not line.endswith(b"\n"):
                break  # the owner died while it wrote
            for child in children:
                child.poll()
            sys.stdout.buffer.write(_start(line, children) + b"\n")
            sys.stdout.buffer.flush()
    for child in children:
        if child.poll() is None:
            Process.of(child.pid).kill()
    remove(directory)


def _start(line: bytes, children: list[subprocess.Popen[bytes]]) -> bytes:
    command = msgspec.json.decode(line, type=Command)
    try:
        children.append(popen(command, dies_with_us=True))
        return msgspec.json.encode(Process.of(children[-1].pid))
    except OSError as error:
        return msgspec.json.encode(f"cannot start {command.words[0]}: {error.strerror}")


def remove(directory: Path) -> None:
    """Delete a directory of servers, and what its links point to."""
    deadline = time.monotonic() + REMOVE_LIMIT_S
    for home in directory.glob("*"):
        if home.is_symlink():
            shutil.rmtree(home.resolve(), ignore_errors=True)
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
