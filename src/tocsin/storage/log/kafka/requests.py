"""What a dataset's topic holds of each request with a key. Only the writer's thread calls this.

Kafka cannot take back what it holds, so nothing is ever cut: a request of which a crash or a lost
answer left only the first records is *made whole* when its publisher sends it again under its key.
An idempotent producer keeps records in order, so what is there is always a beginning.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.protocol.log_line import RequestPart

MOST_KEYS = 100_000


class Request(NamedTuple):
    first: int
    end: int
    there: int
    of: int

    @property
    def whole(self) -> bool:
        return self.there >= self.of


class Requests:
    def __init__(self) -> None:
        self._known: dict[str, Request] = {}  # oldest first
        self._before: dict[str, Request | None] = {}  # as they were before what is staged

    def find(self, key: str | None) -> Request | None:
        return None if key is None else self._known.get(key)

    def stage(self, key: str, request: Request) -> None:
        """It is whole with the next commit."""
        self._before.setdefault(key, self._known.get(key))
        self._known[key] = request

    def commit(self) -> None:
        self._before.clear()
        while len(self._known) > MOST_KEYS:
            del self._known[next(iter(self._known))]

    def cut_back(self) -> None:
        for key, known in self._before.items():
            del self._known[key]
            if known is not None:
                self._known[key] = known
        self._before.clear()

    def learn(self, part: RequestPart, offset: int) -> None:
        """A message that is in the topic. Those of one request come in their order."""
        known = self._known.get(part.key)
        if known is None and part.number == 0:
            self._known[part.key] = Request(offset, offset + 1, 1, part.parts)
        elif known is not None and part.number == known.there:
            self._known[part.key] = Request(known.first, offset + 1, known.there + 1, part.parts)
        # Else its beginning was not looked at: it is too old to be sent again.

    def clear(self) -> None:
        self._known.clear()
        self._before.clear()
