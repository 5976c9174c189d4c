"""A line between two processes that can be cut, stalled, or made to lose one direction.

Passes bytes on between a port of its own and the port that it stands before.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Literal

Mode = Literal["open", "cut", "stalled", "mute"]
"""cut: connections end, and none can be made. stalled: bytes wait, in both directions. mute: what
is sent arrives, and no answer comes back."""

PIECE_BYTES = 65_536


class Proxy:
    """Bound when it is made, so that its address can be told; passes on once it is started."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._to = (host, port)
        self._listener = socket.create_server((host, 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = asyncio.Event()
        self._open.set()
        self._mode: Mode = "open"
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    async def close(self) -> None:
        if self._server is None:
            self._listener.close()
            return
        self._server.close()
        self.set("cut")

    def set(self, mode: Mode) -> None:
        self._mode = mode
        if mode in ("stalled", "mute"):
            self._open.clear()
        else:
            self._open.set()
        if mode == "cut":
            for writer in self._writers:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._held(writer):
            if self._mode == "cut":
                return
            try:
                far_reader, far_writer = await asyncio.open_connection(*self._to)
            except OSError:
                return
            with self._held(far_writer):
                there = asyncio.create_task(self._pass(reader, far_writer, back=False))
                back = asyncio.create_task(self._pass(far_reader, writer, back=True))
                await asyncio.gather(there, back)

    @contextlib.contextmanager
    def _held(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool
    ) -> None:
        """Until its end, which is passed on as well; a line that breaks ends both directions."""
        try:
            while data := await reader.read(PIECE_BYTES):
                if back or self._mode != "mute":
                    await self._open.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):  # RuntimeError: uvloop's, of a line that is closed
            writer.transport.abort()
