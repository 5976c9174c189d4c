"""Room for request bodies that are held at once, so that their sum has a bound.

What comes beyond it is refused before it is read, and can be sent again shortly. Half of the room
is the most that one sender takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Gauge

from tocsin.errors import Unavailable


class Taking:
    """The room of one body, while it comes in."""

    def __init__(self, room: Room, subject: str) -> None:
        self._room = room
        self._subject = subject
        self.size_bytes = 0

    def more(self, size_bytes: int) -> None:
        """So much of it has come, or will come. Raises Unavailable if there is no room."""
        before = self.size_bytes
        self.size_bytes += size_bytes
        if self.size_bytes > self._room.free_bytes:
            held = before if before > self._room.free_bytes else 0
            try:
                self._room.hold(self._subject, self.size_bytes - held)
            except Unavailable:
                self.size_bytes = before
                raise

    def done(self) -> None:
        if self.size_bytes > self._room.free_bytes:
            self._room.hold(self._subject, -self.size_bytes)
        self.size_bytes = 0


class Room:
    """Of one service. For the event loop's thread."""

    def __init__(self, most_bytes: int, held: Gauge, *, free_bytes: int = 0) -> None:
        """`held` shows how much is taken. A body of up to `free_bytes` takes no part."""
        self.most_bytes = most_bytes
        self.free_bytes = free_bytes
        self._shown = held
        self._held: dict[str, int] = {}

    @property
    def held_bytes(self) -> int:
        return sum(self._held.values())

    @contextmanager
    def taking(self, subject: str) -> Iterator[Taking]:
        taking = Taking(self, subject)
        try:
            yield taking
        finally:
            taking.done()

    def hold(self, subject: str, size_bytes: int) -> None:
        mine = self._held.get(subject, 0) + size_bytes
        total = self.held_bytes + size_bytes
        if size_bytes > 0 and (total > self.most_bytes or mine > self.most_bytes // 2):
            raise busy()
        self._held[subject] = mine
        if not mine:
            del self._held[subject]
        self._shown.set(total)


def busy() -> Unavailable:
    return Unavailable(
        "there is no room for another body just now",
        field="body",
        hint="send it again in a moment, or in smaller parts",
    )
