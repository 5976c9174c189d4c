"""What keeps a part of a service from its work, and for how long it has."""

from __future__ import annotations

import threading
import time

from msgspec import Struct

STUCK_S = 10.0  # what has lasted so long is no passing trouble


class Trouble(Struct, frozen=True):
    """`since` in seconds since the epoch."""

    reason: str
    since: float


class Troubles:
    """By the name of what is in trouble. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Trouble] = {}

    def put(self, name: str, reason: str) -> bool:
        """False if that is known: the trouble is as old as it was."""
        with self._lock:
            known = self._known.get(name)
            since = time.monotonic() if known is None else known.since
            self._known[name] = Trouble(reason, since)
            return known is None or known.reason != reason

    def clear(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def of(self, name: str) -> Trouble | None:
        with self._lock:
            return self._known.get(name)

    def lasting(self) -> list[str]:
        """Those that are no passing ones, each in a line."""
        before = time.monotonic() - STUCK_S
        with self._lock:
            known = sorted(self._known.items())
        return [f"{name}: {trouble.reason}" for name, trouble in known if trouble.since < before]
