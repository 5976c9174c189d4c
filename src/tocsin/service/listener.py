"""A listening socket that lets in no more connections than there is room for.

Whoever serves it calls `accept` as with any other. It hands out a few connections in a turn of the
loop, and outlives that the process has no file left for one: a file kept in reserve takes the
newcomer from the queue, so that nobody is asked about it again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from typing import Any, Self

from tocsin.service.connections import Connection, Connections

A_TURN = 16  # connections; those that were closed for them are gone a turn later
TURNS = 24  # in which somebody asks, and is answered, before a crowd has pushed them out
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
CUT_AT_ONCE = 8  # when there is no file left
NO_RESERVE_S = 0.005


class Listener(socket.socket):
    connections: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._accepted = 0
        self._reserve: int | None = None

    def serve_into(self, connections: Connections) -> Self:
        self.connections = connections
        self._keep_reserve()
        return self

    def dup(self) -> Self:
        return super().dup().serve_into(self.connections)

    def accept(self) -> tuple[Connection, Any]:
        """BlockingIOError: nobody waits, or enough came in this turn."""
        while self._count_accept():
            try:
                accepted, address = super().accept()
            except OSError as error:
                if error.errno not in OUT_OF_FILES:
                    raise
                self._turn_away()
                continue
            accepted.setblocking(False)
            connection = self.connections.admit(accepted, str(address[0]))
            if connection is not None:
                return connection, address
        raise BlockingIOError(errno.EAGAIN, "enough for now")

    def close(self) -> None:
        super().close()
        self._spend_reserve()

    def _count_accept(self) -> bool:
        if self._accepted == 0:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._accepted += 1
        strangers = self.connections.limits.strangers
        return self._accepted <= max(1, min(A_TURN, strangers // TURNS))

    def _next_turn(self) -> None:
        self._accepted = 0

    def _turn_away(self) -> None:
        """No file is left for whoever is next: they go, and others make room for the one after."""
        self.connections.count("no_files")
        for _ in range(CUT_AT_ONCE):
            self.connections.make_room("no_files")
        if self._reserve is None:  # without it nobody can be turned away, and trying again is vain
            time.sleep(NO_RESERVE_S)
        self._spend_reserve()
        with contextlib.suppress(OSError):
            super().accept()[0].close()
        self._keep_reserve()

    def _keep_reserve(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _spend_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
