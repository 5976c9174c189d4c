"""What is done to a system, and when: drawn from a seed, so that a run can be played again.

Knows no system: faults are names with a target each, and how long they last at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import Struct

FIRST_S = 2.0  # so long everything is well
PAUSES_S = (0.5, 6.0)  # between the beginnings of two faults
AT_ONCE = 3


class Kind(Struct, frozen=True):
    """Something that can be done. Only one thing at a time is done to a target. What lasts no time
    (a kill) has `longest_s` 0."""

    name: str
    target: str
    longest_s: float = 0.0


class Planned(Struct, frozen=True):
    begin_s: float
    end_s: float
    name: str


def draw(seed: int, length_s: float, kinds: Sequence[Kind]) -> list[Planned]:
    """By their beginnings. All are over at `length_s`."""
    random = Random(seed)
    planned: list[Planned] = []
    busy: dict[str, float] = {}  # until when, by target
    at_s = FIRST_S
    while at_s < length_s:
        at_s = round(at_s, 3)
        running = [until_s for until_s in busy.values() if until_s > at_s]
        free = [kind for kind in kinds if busy.get(kind.target, 0.0) <= at_s]
        if free and len(running) < AT_ONCE:
            kind = _chosen(random, free)
            lasts_s = random.uniform(0.3, 1.0) * kind.longest_s
            end_s = round(min(at_s + lasts_s, length_s), 3)
            planned.append(Planned(at_s, end_s, kind.name))
            busy[kind.target] = max(end_s, at_s + PAUSES_S[0])
        at_s += random.uniform(*PAUSES_S)
    return planned


def _chosen(random: Random, kinds: Sequence[Kind]) -> Kind:
    """A target first: one to which much can be done has no more trouble than others."""
    target = random.choice(sorted({kind.target for kind in kinds}))
    return random.choice([kind for kind in kinds if kind.target == target])
