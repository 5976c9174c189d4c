"""What is promised of attachments, watched from outside: it shares no code with the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tocsin.errors import NotFound, TocsinError
from tocsin.testing.simulation.checkers import promise


def is_right(page: str, data: bytes | None) -> bool:
    return data is not None and hashlib.sha256(data).hexdigest() == page


@dataclass
class PageChecker:
    """Whoever asks for an attachment gets exactly its bytes, or hears that it failed. A broker
    fetches it once for all who ask at the same time. What lies on its disk is within the budget,
    and known to its page cache."""

    content: Mapping[str, bytes]
    served: int = 0
    failures: int = 0
    fetches: int = 0
    shared: int = 0  # readers of a fetch, beyond its first one
    _waiting: dict[int, str] = field(default_factory=dict)  # asks that had no outcome yet
    _under_way: dict[tuple[str, str], int] = field(default_factory=dict)  # broker, page: fetch

    def asked(self, ask: int, page: str) -> None:
        self._waiting[ask] = page

    def got(self, ask: int, data: bytes) -> None:
        page = self._waiting.pop(ask)
        promise(data == self.content.get(page), f"ask {ask} for {page} got other bytes: {data!r}")
        self.served += 1

    def failed(self, ask: int, error: TocsinError) -> None:
        page = self._waiting.pop(ask)
        missing = isinstance(error, NotFound) and page in self.content
        promise(not missing, f"ask {ask}: {page} exists, and was said to be missing")
        self.failures += 1

    def left(self, ask: int) -> None:
        """On its own, without an answer."""
        self._waiting.pop(ask, None)

    def fetch_began(self, broker: str, fetch: int, page: str) -> None:
        other = self._under_way.get((broker, page))
        promise(other is None, f"{broker} fetches {page} twice at once: {other} and {fetch}")
        self._under_way[broker, page] = fetch
        self.fetches += 1

    def fetch_ended(self, broker: str, page: str) -> None:
        """However it ended."""
        self._under_way.pop((broker, page), None)

    def crashed(self, broker: str) -> None:
        for key in [key for key in self._under_way if key[0] == broker]:
            del self._under_way[key]

    def check_disk(
        self, broker: str, disk: Mapping[str, bytes], capacity_bytes: int, cached: Collection[str]
    ) -> None:
        """After every step. An empty page takes a byte."""
        size_bytes = sum(max(1, len(data)) for data in disk.values())
        promise(
            size_bytes <= capacity_bytes,
            f"{broker} keeps {size_bytes} bytes of pages, and may keep {capacity_bytes}",
        )
        unknown = set(disk) - set(cached)
        promise(not unknown, f"{broker} keeps what its page cache does not know: {unknown}")

    def check_over(self) -> None:
        """In the end nobody waits and nothing is on its way."""
        promise(not self._waiting, f"asks without an outcome: {self._waiting}")
        promise(not self._under_way, f"fetches without an end: {self._under_way}")
