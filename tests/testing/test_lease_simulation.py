"""Hosts that want one store: the lease and the fence hold, and bugs planted there are found."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.testing.simulation import KINDS
from tocsin.testing.simulation.leases import LeaseWorld
from tocsin.testing.simulation.mutants import MUTANTS, hunt

SEEDS = range(10)
FOUND_AT = {"long-lease": 1, "impatient": 0}
"""Mutants that are found quickly, and at which seed."""


def test_one_host_at_a_time_acts_for_the_store() -> None:
    worlds = [LeaseWorld(seed) for seed in SEEDS]
    for world in worlds:
        world.run(happenings=15)
    happened = sum((world.happened for world in worlds), Counter[str]())
    assert set(happened) == {"kill", "lose", "freeze", "cut off", "lost answer", "calm"}
    assert sum(world.delivered for world in worlds) > 100 * len(SEEDS)
    assert sum(world.acts for world in worlds) > 100 * len(SEEDS)
    assert sum(world.lease_number for world in worlds) > 2 * len(SEEDS)  # it was taken over


@pytest.mark.parametrize("name", FOUND_AT)
def test_a_planted_bug_is_found(name: str) -> None:
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    seed = FOUND_AT[name]
    assert hunt(mutant, KINDS, seeds=range(seed, seed + 5), happenings=30).seed is not None
