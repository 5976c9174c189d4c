"""Each client that comes to a broker of the tree, drawn beforehand: the same story can then be
played on live brokers and by the simulator, event for event.

The law is that of `TreeLoad`. Whoever is there at the beginning came before the messages; the
others ask for theirs when they come.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.tree import TreeLoad


class Visits(Struct, frozen=True, kw_only=True):
    """One a client, in the order in which they come."""

    load: TreeLoad
    broker: NDArray[np.int64]
    message: NDArray[np.int64]
    came_s: NDArray[np.float64]
    left_s: NDArray[np.float64]
    early: int  # so many, the first ones, are there when the messages are published

    def __len__(self) -> int:
        return len(self.broker)


def draw_visits(load: TreeLoad, seed: int) -> Visits:
    if not load.duration_s:
        raise InvalidInput("a story needs an end", field="duration-s", hint="more than 0")
    random = np.random.default_rng(seed)
    cells = load.brokers * load.messages
    there = np.repeat(np.arange(cells), random.poisson(load.client_load, cells))
    coming = random.poisson(cells * load.client_rate * load.duration_s)
    cell = np.concatenate([there, random.integers(0, cells, coming)])
    came_s = np.zeros(len(cell))
    came_s[len(there) :] = np.sort(random.uniform(0.0, load.duration_s, coming))
    message, broker = np.divmod(cell, load.brokers)
    return Visits(
        load=load,
        broker=broker,
        message=message,
        came_s=came_s,
        left_s=came_s + random.exponential(1 / load.departure_rate, len(cell)),
        early=len(there),
    )
