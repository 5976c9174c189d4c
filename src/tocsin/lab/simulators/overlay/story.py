"""A story of clients and messages, told step by step: by the kernel here, by routers and caches of
the running system in `live`. Tests hold the two equal."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from tocsin.lab.jit.functions import callback
from tocsin.lab.jit.linked_list import NONE
from tocsin.lab.simulators.overlay import kernel
from tocsin.lab.simulators.overlay.simulator import KEEPS, MOVES, new_world
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.overlay.topology import Tree
from tocsin.policies.message import MessagePolicy

Kind = Literal["publishes", "comes", "leaves"]
KINDS = {"publishes": kernel.PUBLISHES, "comes": kernel.COMES, "leaves": kernel.LEAVES}


class Happening(Struct, frozen=True):
    """A message is published at a broker; a client that wants it comes there, or leaves."""

    kind: Kind
    broker: int
    message: int


class Step(Struct, frozen=True):
    """What was counted until then (sums over answered requests), and what is in each cache, from
    the top down."""

    counts: dict[str, int]
    caches: list[list[int]]


def play_compiled(
    story: list[Happening], tree: Tree, messages: int, slots: int, policy: MessagePolicy
) -> list[Step]:
    load = TreeLoad(brokers=len(tree.brokers), messages=messages, slots=slots)
    run, world = new_world(load, policy, tree)
    keeps, moves = callback(policy.keeps, KEEPS), callback(policy.moves, MOVES)
    counts = np.zeros((1, len(kernel.COUNTS)), np.int64)
    steps = []
    for happening in story:
        kind, broker, message = (
            np.array([value])
            for value in (KINDS[happening.kind], happening.broker, happening.message)
        )
        kernel.tell(run, world, kind, broker, message, keeps, moves, counts)
        counted = dict(zip(kernel.COUNTS, counts[0].tolist(), strict=True))
        steps.append(Step(counted, [_cached(world, broker) for broker in range(load.brokers)]))
    return steps


def _cached(world: kernel.World, broker: int) -> list[int]:
    messages, cell = [], int(world.brokers["top"][broker])
    while cell != NONE:
        messages.append(cell // len(world.brokers))
        cell = int(world.cells["below"][cell])
    return messages
