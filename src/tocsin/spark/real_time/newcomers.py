"""New subscriptions of channels in real-time mode, until Spark's own query looks at them.

That query reads the parameter sets when a batch begins, seconds after a subscription was made.
Until then ordinary runs serve the newcomers, from the very position from which they count. They are
handed over once a batch has begun after they were stored, with a record that these runs have
reached: what both find is stored once. Up to which subscription that is done lies in the store,
so that a restart takes the others up where they began.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from tocsin.model import Arguments, Channel
from tocsin.spark.channels.openings import Mask, mask_of


class Batch(Struct, frozen=True):
    """A batch of a query: before when it did not begin, and with which record it does. It looks at
    every parameter set that was stored by then."""

    began_at: float
    start: int


@dataclass
class _Newcomer:
    arguments: Arguments
    mask: Mask
    reached: int  # everything below was looked at for it
    seen_at: float  # it was in the store by then


@dataclass
class _Class:
    """Those of one channel."""

    settled: int
    newcomers: dict[int, _Newcomer] = field(default_factory=dict)
    stale: bool = True  # more may have come


class Newcomers:
    """Knows no Spark and no store: its caller says who came, how far runs got, and which batches
    began. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock`: that by which batches begin."""
        self._clock = clock
        self._lock = threading.Lock()
        self._classes: dict[str, _Class] = {}

    def watch(self, channel: Channel, settled: int) -> None:
        with self._lock:
            self._classes[channel.name] = _Class(settled)

    def unwatch(self, name: str) -> None:
        with self._lock:
            self._classes.pop(name, None)

    def expect(self, name: str) -> None:
        """A subscription was made."""
        with self._lock:
            if name in self._classes:
                self._classes[name].stale = True

    def settled(self, name: str) -> int:
        with self._lock:
            return self._classes[name].settled if name in self._classes else 0

    def need_run(self, name: str, end: int) -> bool:
        """Whether somebody waits for records below `end`, or may have come."""
        with self._lock:
            known = self._classes.get(name)
            return known is not None and (
                known.stale or any(newcomer.reached < end for newcomer in known.newcomers.values())
            )

    def arrived(self, name: str, sets: list[tuple[int, Arguments, int]]) -> None:
        """All that the store holds behind the settled ones: (backend, arguments, since)."""
        now = self._clock()
        with self._lock:
            known = self._classes.get(name)
            if known is None:
                return
            known.stale = False
            old = known.newcomers
            known.newcomers = {
                backend: old.get(backend) or _Newcomer(arguments, mask_of(arguments), since, now)
                for backend, arguments, since in sets
            }

    def begin(self, name: str) -> tuple[int, dict[int, Arguments]]:
        """From where a run for all of them starts, and their parameter sets."""
        with self._lock:
            known = self._classes.get(name)
            newcomers = {} if known is None else known.newcomers
            start = min((newcomer.reached for newcomer in newcomers.values()), default=0)
            return start, {backend: newcomer.arguments for backend, newcomer in newcomers.items()}

    def ran(self, name: str, served: dict[int, Arguments], end: int) -> None:
        """A run has stored what they get of all records below `end`."""
        with self._lock:
            known = self._classes.get(name)
            newcomers = {} if known is None else known.newcomers
            for backend in newcomers.keys() & served.keys():
                newcomers[backend].reached = max(newcomers[backend].reached, end)

    def hand_over(self, name: str, batches: dict[Mask, Batch]) -> int:
        """Up to which backend subscription Spark's own queries look at all there are."""
        with self._lock:
            known = self._classes.get(name)
            if known is None:
                return 0
            now = self._clock()
            for backend in sorted(known.newcomers):
                newcomer = known.newcomers[backend]
                newcomer.seen_at = min(newcomer.seen_at, now)  # if the clock was set back since
                batch = batches.get(newcomer.mask)
                if (
                    batch is None
                    or not newcomer.seen_at < batch.began_at <= now  # later: by an older clock
                    or batch.start > newcomer.reached
                ):
                    break
                del known.newcomers[backend]
                known.settled = backend
            return known.settled
