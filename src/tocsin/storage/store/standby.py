"""A cluster that waits for a store which another one leads, and whom it waits for.

The waiting itself is the writer's (`writer`): it ends when the claim is free, be it that the leader
gave it back, died, or was silent for the length of its lease.
"""

from __future__ import annotations

import threading

from msgspec import Struct
from msgspec.structs import replace


class Leader(Struct, frozen=True):
    """Who has the store, as a standby sees it."""

    number: int  # of its lease
    process: str  # for people
    address: str  # where it is called; empty: it did not say
    store_id: str
    silent_s: float  # for how long its lease was not seen to be renewed
    seen_s: float = 0.0  # for how long it was seen at all


class Standby:
    """Shared by the thread that waits and those who ask about it."""

    def __init__(self) -> None:
        self.leader: Leader | None = None  # None: nobody was found to have the store
        self._first_seen_at = 0.0
        self._stopping = threading.Event()

    def sees(self, leader: Leader, now: float) -> None:
        """By any steady clock."""
        if self.leader is None or self.leader.number != leader.number:
            self._first_seen_at = now
        self.leader = replace(leader, seen_s=now - self._first_seen_at)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """It is not to wait any more."""
        self._stopping.set()
