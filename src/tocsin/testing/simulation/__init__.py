"""Seeded fault simulation of a whole system around the real broker core, router and client's feeds.

Ships with the product, so that whoever writes a policy can see it hold the promises under lost
notices, crashes and moves: `World(seed, policies=["mine"]).run(60)` raises `BrokenPromise` if not.
`World` has two brokers and channels, `NetworkWorld` a tree of brokers that also routes records, and
in a `PageWorld` results mention attachments. These model the cluster; in a `ClusterWorld` it is the
real one, on a disk that breaks, and in a `LeaseWorld` several hosts want the same store. `mutants`
has the bugs that all this must find.
Imported by tests and tools only.
"""

from collections.abc import Callable, Sequence

from tocsin.testing.simulation.checkers import BrokenPromise
from tocsin.testing.simulation.cluster import ClusterWorld
from tocsin.testing.simulation.leases import LeaseWorld
from tocsin.testing.simulation.network import NetworkWorld
from tocsin.testing.simulation.pages import PageWorld
from tocsin.testing.simulation.playable import Playable
from tocsin.testing.simulation.world import World

KINDS: dict[str, Callable[[int, Sequence[str]], Playable]] = {
    "channels": World,
    "cluster": ClusterWorld,
    "leases": LeaseWorld,
    "network": NetworkWorld,
    "pages": PageWorld,
}

__all__ = ["KINDS", "BrokenPromise", "NetworkWorld", "PageWorld", "World"]
