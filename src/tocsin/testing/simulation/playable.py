"""What is asked of a world, of whichever kind."""

from __future__ import annotations

from typing import Protocol


class Playable(Protocol):
    """Raises `BrokenPromise` when it runs and a promise does not hold."""

    @property
    def delivered(self) -> int:
        """Results; in worlds without them, acknowledged writes."""

    @property
    def gaps(self) -> int: ...

    def run(self, happenings: int) -> None: ...
