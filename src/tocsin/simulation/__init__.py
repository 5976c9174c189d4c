"""Seeded fault simulation of a whole system around the real broker core.

Ships with the product, so that whoever writes a policy can see it hold the promises under lost
notices, crashes and moves: `World(seed, policies=["mine"]).run(60)` raises `BrokenPromise` if not.
Imported by tests and tools only.
"""

from tocsin.simulation.checkers import BrokenPromise
from tocsin.simulation.world import World

__all__ = ["BrokenPromise", "World"]
