"""The coordinator in memory: who lives, by heartbeats; the tree of these, and where publications
enter. It may forget everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.overlay.topology import Tree, without


@dataclass
class ModelCoordinator:
    base: Tree
    patience_s: float
    order: list[str]  # the first of these that lives is where publications enter
    heard: dict[str, float] = field(default_factory=dict)

    def heartbeat(self, broker: str, now: float) -> tuple[str, list[str]]:
        """Where publications enter, and the neighbours of the broker."""
        self.heard[broker] = now
        living = {name for name, at in self.heard.items() if now - at <= self.patience_s}
        tree = without(self.base, set(self.base.brokers) - living)
        return next(name for name in self.order if name in living), tree.neighbours(broker)

    def forget(self) -> None:
        self.heard.clear()
