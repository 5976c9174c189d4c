"""Room and threads for large request bodies, so that one publisher's do not hold up the others.

What takes long to read and check is done by a few threads, never by the event loop. Whoever sends
has one thread at a time; the next waits. Bodies that are held while they wait have a budget: what
comes beyond it is refused before it is read, and can be sent again shortly.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from prometheus_client import Gauge

from tocsin.service.room import Room, Taking, busy

T = TypeVar("T")

SMALL_BYTES = 64 * 1024
"""A body up to here takes part in no count."""
SMALL_SIGNS = 4096
"""So many values at most are in a body that the event loop reads itself."""
THREADS = 2
MOST_WAITING = 32  # whoever comes then is told to come again
_BODIES = 4  # so many bodies of the largest size are held at once; half of them of one sender

HELD = Gauge("tocsin_large_body_bytes", "Bytes of large request bodies that are held")


class _Waiting(NamedTuple):
    subject: str
    turn: asyncio.Future[None]


class LargeBodies:
    """Of one service."""

    def __init__(self, limit_bytes: int) -> None:
        self._room = Room(_BODIES * limit_bytes, HELD, free_bytes=SMALL_BYTES)
        self._running: set[str] = set()
        self._waiting: deque[_Waiting] = deque()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-body")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def taking(self, subject: str) -> AbstractContextManager[Taking]:
        """Room for a body of theirs."""
        return self._room.taking(subject)

    async def run(self, subject: str, work: Callable[[], T]) -> T:
        """What `work` returns, done by a thread when it is the subject's turn."""
        await self._turn(subject)
        loop = asyncio.get_running_loop()
        try:
            future = loop.run_in_executor(self._threads, work)
        except BaseException:
            self._leave(subject)
            raise
        future.add_done_callback(lambda _: self._leave(subject))
        return await asyncio.shield(future)  # who leaves early leaves the thread at work

    async def _turn(self, subject: str) -> None:
        if len(self._running) < THREADS and subject not in self._running:
            self._running.add(subject)
            return
        if len(self._waiting) >= MOST_WAITING:
            raise busy()
        waiting = _Waiting(subject, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.turn.done() and not waiting.turn.cancelled():
                self._leave(subject)
            raise

    def _leave(self, subject: str) -> None:
        self._running.discard(subject)
        for waiting in list(self._waiting):
            if len(self._running) >= THREADS:
                return
            if waiting.subject not in self._running and not waiting.turn.done():
                self._waiting.remove(waiting)
                self._running.add(waiting.subject)
                waiting.turn.set_result(None)


def is_small(body: bytes) -> bool:
    """Whether the event loop may read it itself: it is short, and has few values."""
    if len(body) >= SMALL_BYTES:
        return False
    return (
        len(body) < SMALL_SIGNS
        or sum(map(body.count, (b",", b"\n", b"\r", b"[", b"{"))) < SMALL_SIGNS
    )
