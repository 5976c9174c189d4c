"""Servers that end with the process that started them, however it ends; nothing of them stays."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Self, TypeVar

from tocsin.dev.server import Server
from tocsin.system.guard import Guard

AnyServer = TypeVar("AnyServer", bound=Server)


class Throwaway:
    """Use as a context manager, or call `close`."""

    def __init__(self) -> None:
        self.started: list[Server] = []
        self.directory = Path(tempfile.mkdtemp(prefix="tocsin-servers-"))
        self.directory.chmod(0o711)  # PostgreSQL may run as another user
        self._guard = Guard(self.directory)

    def start(self, kind: type[AnyServer], *, short_lived: bool = True) -> AnyServer:
        server = kind(self.directory, self._guard, short_lived=short_lived)
        server.start()
        self.started.append(server)
        return server

    def close(self) -> None:
        self._guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
