"""Who is alive, how loaded, and beside whom. Sans-I/O: `now` (any steady clock, seconds) is passed
in.

Nothing is stored: after a restart the next heartbeats rebuild everything. Must not know HTTP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from tocsin.coordinator.overlay import Overlay
from tocsin.errors import InvalidInput, Unavailable
from tocsin.overlay.topology import Tree
from tocsin.protocol.coordinator import LiveBroker, OverlayAssignment, OverlayTree

MISSED_INTERVALS = 3  # a broker is dead after so many heartbeats did not come


@dataclass
class _Entry:
    url: str
    ws_url: str
    connections: int
    subscriptions: int
    seen_at: float
    # When clients were sent here lately. They may not be connected yet, so that `connections`
    # does not count them: without these a burst between two heartbeats would hit one broker.
    assigned_at: deque[float] = field(default_factory=deque)

    @property
    def load(self) -> int:
        return self.connections + len(self.assigned_at)


class Registry:
    """The brokers that reported, with their load."""

    def __init__(self, interval_s: float, tree: Tree | None = None) -> None:
        """`tree`: whom the brokers are to be linked with; without it they form a balanced one."""
        self.interval_s = interval_s
        self._entries: dict[str, _Entry] = {}
        self._overlay = Overlay(tree)
        self._gathered_at: float | None = None

    def heartbeat(
        self,
        name: str,
        url: str,
        ws_url: str,
        connections: int,
        subscriptions: int,
        now: float,
        place: int | None = None,
    ) -> int:
        """A broker says that it lives. The newest word about it wins. `place` is what it was first
        answered, by whichever coordinator; the answer is its place now."""
        if not name:
            raise InvalidInput("a broker needs a name", field="name")
        if place is not None and not self._alive(now):
            # We are new, or were away: the others live on, linked as they were. To be told of a
            # tree without them, as long as they have not reported, would break what is whole.
            self._gathered_at = now + MISSED_INTERVALS * self.interval_s
        entry = self._entries.get(name)
        fresh = _Entry(url, ws_url, connections, subscriptions, now)
        if entry is not None:
            # Whoever was sent here longer than an interval ago is counted in `connections` by now.
            fresh.assigned_at.extend(at for at in entry.assigned_at if now - at < self.interval_s)
        self._entries[name] = fresh
        return self._overlay.came(name, place)

    def assignment(self, name: str, now: float) -> OverlayAssignment | None:
        """Whom a living broker is to be linked with; None: as before, whatever that is."""
        if self._gathered_at is not None and now < self._gathered_at:
            return None
        tree = self._overlay.tree(self._alive(now))
        if tree is None or name not in tree.brokers:
            return None
        neighbours = {
            neighbour: self._entries[neighbour].ws_url for neighbour in tree.neighbours(name)
        }
        return OverlayAssignment(tree.brokers[0], neighbours)

    def overlay(self, now: float) -> OverlayTree:
        return self._overlay.shown(self._alive(now))

    def alive(self, now: float) -> int:
        """How many brokers live."""
        return len(self._alive(now))

    def leave(self, name: str) -> None:
        """A broker says good-bye. Leaving twice is fine: the wish is fulfilled."""
        self._entries.pop(name, None)

    def choose(self, now: float, exclude: Collection[str] = ()) -> LiveBroker:
        """The live broker with the least load; equal ones by name.

        `exclude` names brokers that just failed the caller. They are avoided while another one
        lives; the only live broker is answered even so, for it may be well again.
        """
        alive = self._alive(now)
        candidates = [name for name in alive if name not in exclude] or alive
        if not candidates:
            raise Unavailable(
                "no broker is alive", hint="start one with: tocsin broker, then try again"
            )
        name = min(candidates, key=lambda name: (self._entries[name].load, name))
        self._entries[name].assigned_at.append(now)
        return self._view(name, now)

    def brokers(self, now: float) -> list[LiveBroker]:
        """Every broker that ever reported and did not leave, dead ones too, by name."""
        return [self._view(name, now) for name in sorted(self._entries)]

    def _alive(self, now: float) -> list[str]:
        return [name for name, entry in self._entries.items() if self._is_alive(entry, now)]

    def _is_alive(self, entry: _Entry, now: float) -> bool:
        return now - entry.seen_at <= MISSED_INTERVALS * self.interval_s

    def _view(self, name: str, now: float) -> LiveBroker:
        entry = self._entries[name]
        return LiveBroker(
            name=name,
            url=entry.url,
            ws_url=entry.ws_url,
            connections=entry.connections,
            subscriptions=entry.subscriptions,
            alive=self._is_alive(entry, now),
            age_s=max(0.0, now - entry.seen_at),
        )
