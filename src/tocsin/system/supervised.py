"""One process that is kept running: started again when it dies, with growing pauses if it keeps
dying; not if it says that it is misconfigured."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random

import structlog

from tocsin.backoff import Backoff
from tocsin.errors import MISCONFIGURED
from tocsin.system.launching import Command, popen
from tocsin.system.processes import Process
from tocsin.system.startup import Log

log = structlog.get_logger()

SUPERVISED = "STOP_WHEN_INPUT_ENDS"
"""Set in a service's environment: it stops when its standard input ends, as its starter does."""
LOOK_S = 0.05
STEADY_S = 30.0  # one that ran so long was a good one: the next failure starts small
FIRST_RESTART_S, LONGEST_RESTART_S = 0.1, 5.0


class Supervised(ABC):
    """Used from one event loop."""

    def __init__(self, name: str, log_file: Path) -> None:
        self.name = name
        self.log = Log(log_file)
        self.restarts = 0
        self.exit_codes: list[int] = []
        self.was_ready = False
        self.refusal = ""
        """Why it does not want to run at all."""
        self._child: subprocess.Popen[bytes] | None = None
        self._process: Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @abstractmethod
    def command(self) -> Command:
        """What to start, anew for each start."""

    @property
    def process(self) -> Process:
        """As it runs now."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it and watch over it from now on."""
        self._spawn()
        self._watcher = asyncio.create_task(self._watch())

    async def kill(self) -> None:
        """kill -9 of it and its children. It is started again, as after any death."""
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)

    async def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        if self._watcher is not None:
            self._watcher.cancel()
        if self._child is not None and self._process is not None:
            await asyncio.to_thread(self._process.stop, signal.SIGTERM)
            self._child.wait()
            assert self._child.stdin is not None
            self._child.stdin.close()

    def _spawn(self) -> None:
        self.log.mark(again=self.restarts > 0)
        self._child = popen(self.command(), stdin=subprocess.PIPE)  # it ends with us
        self._process = Process.of(self._child.pid)

    async def _watch(self) -> None:
        backoff = Backoff(Random(), FIRST_RESTART_S, LONGEST_RESTART_S)
        while True:
            started_at = time.monotonic()
            code = await self._ended()
            self.exit_codes.append(code)
            if code == MISCONFIGURED and not self.was_ready:
                self.refusal = self._last_error()
                return
            if time.monotonic() - started_at > STEADY_S:
                backoff.reset()
            log.warning("a service died and is started again", service=self.name, code=code)
            await asyncio.sleep(backoff.next_s())
            self.restarts += 1
            self._spawn()

    async def _ended(self) -> int:
        assert self._child is not None
        while (code := self._child.poll()) is None:  # noqa: ASYNC110 (a process gives no event)
            await asyncio.sleep(LOOK_S)
        return code

    def _last_error(self) -> str:
        """What it complained of, as the command line writes it."""
        return self.log.written().rpartition("error: ")[2].strip() or f"see {self.log.file}"
