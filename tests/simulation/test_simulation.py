"""Hundreds of seeded worlds; each promise has a checker.

A failing seed is printed. Run it alone with TOCSIN_SEED=17, or more of them with TOCSIN_SEEDS=5000.
"""

from __future__ import annotations

import os

import pytest

from tocsin.simulation import World

ONE = os.environ.get("TOCSIN_SEED")
SEEDS = int(os.environ.get("TOCSIN_SEEDS", "300"))
GROUP = 50


def _run(seed: int) -> World:
    world = World(seed)
    try:
        world.run(happenings=60)
    except Exception as error:
        error.add_note(f"seed {seed}: run it again with TOCSIN_SEED={seed}")
        raise
    return world


@pytest.mark.parametrize("first", [int(ONE)] if ONE else range(0, SEEDS, GROUP))
def test_promises_hold_under_faults(first: int) -> None:
    worlds = [_run(seed) for seed in range(first, first + (1 if ONE else GROUP))]
    if not ONE:  # a simulation that does nothing proves nothing
        assert sum(world.delivery.count for world in worlds) > 2000
        assert sum(world.delivery.gaps for world in worlds) > 5
        assert sum(world.delivery.ends for world in worlds) > 20
        assert sum(world.moves for world in worlds) > 5


def test_a_seed_replays_exactly() -> None:
    first, second = _run(7), _run(7)
    assert first.delivery.delivered == second.delivery.delivered
    assert first.delivery.count == second.delivery.count
    assert first.now == second.now
