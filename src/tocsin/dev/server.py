"""What all servers share: prepared once, started, waited for, stopped, killed, paused, restarted.

A subclass says what it lacks on this machine, how its data directory is made and how it is started.
"""

from __future__ import annotations

import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Protocol

from tocsin.dev.state import Record
from tocsin.errors import Conflict, Unavailable
from tocsin.system.launching import Command, Launcher
from tocsin.system.ports import free_port, is_free
from tocsin.system.processes import Process, unsupported
from tocsin.system.startup import Log, Startup

LOOK_S = 0.05
PORTS_TRIED = 3


class Progress(Protocol):
    """Who is told how far we are. A total of 0: it is not known."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


class Server(ABC):
    name: ClassVar[str]
    title: ClassVar[str]
    gently: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(
        self,
        directory: Path,
        launcher: Launcher,
        *,
        record: Record | None = None,
        save: Callable[[], None] = lambda: None,
        short_lived: bool = False,
    ) -> None:
        """`short_lived`: for tests. It starts faster, and need not survive a power cut."""
        self.home = directory / self.name
        self._launcher = launcher
        self._record = record if record is not None else Record()
        self._save = save
        self._short_lived = short_lived
        self._written = Log(self.log)

    @classmethod
    def missing(cls) -> str | None:
        """What this machine lacks to run it, and how to get it; None if nothing."""
        return unsupported() or cls._lacks()

    @classmethod
    @abstractmethod
    def _lacks(cls) -> str | None: ...

    @classmethod
    @abstractmethod
    def install(cls, progress: Progress) -> None:
        """Get what it lacks, or say why not."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The address as Tocsin's settings take it."""

    @abstractmethod
    def _make_data(self, data: Path) -> None:
        """Make a data directory that is not there yet."""

    @abstractmethod
    def _launch(self) -> None:
        """Start it on `port`, and wait until it serves."""

    @property
    def port(self) -> int:
        return self._record.port

    @property
    def data(self) -> Path:
        return self.home.resolve() / "data"  # home may be a link

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def processes(self) -> dict[str, Process]:
        return self._record.processes

    @property
    def alive(self) -> bool:
        return bool(self.processes) and all(process.alive for process in self.processes.values())

    def start(self) -> None:
        """Start it and wait until it serves: on its old port, at first on a free one."""
        if self.alive:
            return
        if reason := self.missing():
            raise Unavailable(reason)
        self.kill()  # what is left of it
        self._make_home()
        self._make_data_once()
        if self.port:
            if not is_free(self.port):
                raise Conflict(f"port {self.port} of {self.title} is taken by another program")
            self._launch()
            return
        for attempt in range(1, PORTS_TRIED + 1):
            self._record.port = free_port()
            try:
                self._launch()
                return
            except Unavailable:
                # Perhaps another program was quicker to take the port.
                if is_free(self.port) or attempt == PORTS_TRIED:
                    raise

    def move_if_port_is_taken(self) -> bool:
        """Have the next start choose another port if somebody has this one; whether it will."""
        if self.alive or not self.port or is_free(self.port):
            return False
        self._record.port = 0
        return True

    def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        for process in reversed(self.processes.values()):
            process.stop(self.gently)
        self._forget()

    def kill(self) -> None:
        """kill -9. `start` brings it back with its data."""
        for process in reversed(self.processes.values()):
            process.kill()
        self._forget()

    def restart(self) -> None:
        """Stop it if it runs, and have it back on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """It hangs: connections are taken by the kernel, nothing is answered."""
        for process in self.processes.values():
            process.pause()

    def resume(self) -> None:
        for process in self.processes.values():
            process.resume()

    def heal(self) -> None:
        """Whatever was done to it: it serves again."""
        if any(process.paused for process in self.processes.values()):
            self.resume()
        self.start()

    def delete(self) -> None:
        """Remove all its data. It must be down."""
        shutil.rmtree(self.home.resolve(), ignore_errors=True)
        if self.home.is_symlink():
            self.home.unlink()

    def _make_home(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)

    def _make_data_once(self) -> None:
        """Under another name until it is whole."""
        if not self.data.exists():
            part = self.data.with_name("data.part")
            shutil.rmtree(part, ignore_errors=True)
            self._make_data(part)
            part.rename(self.data)

    def _no_data(self, printed: str) -> Unavailable:
        why = next(iter(printed.strip().splitlines()), "no reason was given")
        return Unavailable(f"the data directory of {self.title} could not be made: {why}")

    def _start_process(self, name: str, command: Command) -> None:
        self._written.mark()
        self.processes[name] = self._launcher.start(command)
        self._save()

    def _forget(self) -> None:
        self.processes.clear()
        self._save()

    def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for it; if that fails nothing of the server is left running."""
        startup = Startup(self.title, self._written)
        try:
            while not condition():
                startup.check(alive=self.alive)
                time.sleep(LOOK_S)
        except BaseException:
            self.kill()
            raise
