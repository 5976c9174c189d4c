"""Message caches in a tree of brokers under a policy: many runs, each until its messages are gone.

Knows nothing of statistics: `measures` makes means and intervals of what was seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.jit.functions import JIT, callback
from tocsin.lab.jit.linked_list import NONE
from tocsin.lab.jit.records import records
from tocsin.lab.simulators.overlay import kernel
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.overlay.topology import Tree, balanced
from tocsin.policies.message import MessagePolicy

KEEPS = numba.boolean(numba.int64, numba.int64) if JIT else "keeps"
MOVES = numba.int64(numba.int64, numba.boolean) if JIT else "moves"

Values = NDArray[np.float64]


class Seen(Struct, frozen=True, kw_only=True):
    """What was seen in each run; sums are over its requests that were answered."""

    load: TreeLoad
    absorbed_s: Values  # run × message; 0: never cached
    gone: NDArray[np.bool_]  # run × message: not only cut short by the end of the run
    requests: Values
    answered: Values
    hops: Values
    responses: Values
    delivered: Values
    slots_searched: Values
    links: Values
    events: int  # publications, and clients that came or left
    seconds: float  # that the runs took


def numbered(brokers: int) -> list[str]:
    return [str(number) for number in range(1, brokers + 1)]


def simulate(
    load: TreeLoad,
    policy: MessagePolicy,
    *,
    runs: int,
    seed: int,
    tree: Tree | None = None,
    progress: Callable[[int], None] | None = None,
) -> Seen:
    """So many runs, in a balanced binary tree if no other is given."""
    tree = tree or balanced(numbered(load.brokers))
    _check(load, tree, runs)
    random = np.random.default_rng(seed)
    keeps, moves = callback(policy.keeps, KEEPS), callback(policy.moves, MOVES)
    run, world = new_world(load, policy, tree)
    absorbed_s = np.zeros((runs, load.messages))
    gone = np.ones((runs, load.messages), np.bool_)
    counts = np.zeros((runs, len(kernel.COUNTS)))
    stretch = max(1, runs // 100) if progress else runs
    started = time.perf_counter()
    for begin in range(0, runs, stretch):
        part = slice(begin, begin + stretch)
        fits = kernel.play(
            run, world, keeps, moves, random, absorbed_s[part], gone[part], counts[part]
        )
        assert fits, "clients are as many as at the beginning, but for chance"
        if progress is not None:
            progress(len(absorbed_s[part]))
    return Seen(
        load=load,
        absorbed_s=absorbed_s,
        gone=gone,
        events=int(run["events"][0]),
        seconds=time.perf_counter() - started,
        **dict(zip(kernel.COUNTS, counts.T, strict=True)),
    )


def _check(load: TreeLoad, tree: Tree, runs: int) -> None:
    if runs < 1:
        raise InvalidInput(f"runs is {runs}", field="runs", hint="1 or more")
    if len(tree.brokers) != load.brokers:
        raise InvalidInput(
            f"the tree has {len(tree.brokers)} brokers, not {load.brokers}", field="brokers"
        )


def new_world(load: TreeLoad, policy: MessagePolicy, tree: Tree) -> tuple[Any, kernel.World]:
    """Nobody is there, nothing is cached."""
    brokers = load.brokers
    clients = brokers * load.messages * load.client_load  # their number is Poisson's
    run = records(1, kernel.RUN)
    run["brokers"], run["slots"] = brokers, load.slots
    run["to_nobody"], run["to_somebody"] = policy.reaches(0), policy.reaches(1)
    run["in_passing"] = any(policy.keeps(0, interested) for interested in range(brokers))
    run["client_rate"], run["departure_rate"] = load.client_rate, load.departure_rate
    run["load"], run["duration_s"] = load.client_load, load.duration_s
    cells = records(brokers * load.messages, kernel.CELL)
    cells["above"] = cells["below"] = NONE
    return run, kernel.World(
        *rooted(tree),
        cells=cells,
        messages=records(load.messages, kernel.MESSAGE),
        live=np.zeros(load.messages, np.uint32),
        crowd=np.zeros(int(2 * (clients + 20 * math.sqrt(clients) + 100)), np.uint32),
        visits=records(brokers, kernel.VISIT),
    )


def rooted(tree: Tree) -> tuple[Any, Any]:
    """Brokers with nothing cached, seen from the first one; and the neighbours of each, one after
    the other."""
    places = {name: place for place, name in enumerate(tree.brokers)}
    neighbours_of = [[places[name] for name in tree.neighbours(broker)] for broker in tree.brokers]
    brokers = records(len(neighbours_of), kernel.BROKER)
    brokers["top"] = brokers["bottom"] = brokers["parent"] = NONE
    waiting = [0]
    while waiting:
        here = waiting.pop()
        for neighbour in neighbours_of[here]:
            if neighbour != brokers["parent"][here]:
                brokers["parent"][neighbour] = here
                waiting.append(neighbour)
    brokers["end"] = np.cumsum([len(neighbours) for neighbours in neighbours_of])
    brokers["first"][1:] = brokers["end"][:-1]
    return brokers, np.array(
        [place for neighbours in neighbours_of for place in neighbours], np.uint32
    )
