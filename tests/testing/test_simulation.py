"""Hundreds of seeded worlds of each kind; each promise has a checker.

A failing seed is printed. Run it alone with TOCSIN_SEED=17, or more of them with TOCSIN_SEEDS=5000.
"""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from tocsin.cli import app
from tocsin.testing.simulation import KINDS, BrokenPromise, NetworkWorld, PageWorld, World
from tocsin.testing.simulation.mutants import MUTANTS, hunt

ONE = os.environ.get("TOCSIN_SEED")
MANY = {"channels": 250, "network": 150, "pages": 200}
ALL_KINDS = ["channels", "cluster", "leases", "network", "pages"]
SEEDS = {kind: int(os.environ.get("TOCSIN_SEEDS", many)) for kind, many in MANY.items()}
GROUP = 50
GROUPS = [
    (kind, first)
    for kind, seeds in SEEDS.items()
    for first in ([int(ONE)] if ONE else range(0, seeds, GROUP))
]


def _run(kind: str, seed: int) -> World:
    world = KINDS[kind](seed, ())
    assert isinstance(world, World)
    try:
        world.run(happenings=60)
    except Exception as error:
        error.add_note(f"{kind}, seed {seed}: run it again with TOCSIN_SEED={seed}")
        raise
    return world


@pytest.mark.parametrize(("kind", "first"), GROUPS)
def test_promises_hold_under_faults(kind: str, first: int) -> None:
    worlds = [_run(kind, seed) for seed in range(first, first + (1 if ONE else GROUP))]
    if not ONE:  # a simulation that does nothing proves nothing
        assert sum(world.delivery.count for world in worlds) > 2000
        assert sum(world.delivery.gaps for world in worlds) > 5
        assert sum(world.delivery.ends for world in worlds) > 20
        assert sum(world.moves for world in worlds) > 5
        assert sum(world.comparisons for world in worlds) > 100
        assert sum(world.restarts for world in worlds) > 3  # with another store
        assert sum(world.batches for world in worlds) > 100
        networks = [world for world in worlds if isinstance(world, NetworkWorld)]
        assert not networks or sum(world.fills for world in networks) > 100
        assert not networks or sum(world.from_neighbours for world in networks) > 20
        pages = [world.pages for world in worlds if isinstance(world, PageWorld)]
        assert not pages or sum(checker.served for checker in pages) > 1000
        assert not pages or sum(checker.failures for checker in pages) > 200
        assert not pages or sum(checker.shared for checker in pages) > 100


@pytest.mark.parametrize("name", ["early-confirmation", "lost-acknowledgement", "no-second-look"])
def test_a_bug_in_what_clients_are_told_is_found(name: str) -> None:
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    assert hunt(mutant, KINDS, seeds=range(20)).seed is not None


@pytest.mark.parametrize("kind", MANY)
def test_a_seed_replays_exactly(kind: str) -> None:
    first, second = _run(kind, 7), _run(kind, 7)
    assert first.delivery.delivered == second.delivery.delivered
    assert first.delivery.count == second.delivery.count
    assert first.now == second.now


def test_the_command_runs_all_kinds_and_counts() -> None:
    told = CliRunner().invoke(app, ["simulate", "--seeds", "2"])
    assert told.exit_code == 0
    lines = [line.split("\t")[:2] for line in told.stdout.splitlines()]
    assert lines == [["worlds", "seeds"], *([kind, "2"] for kind in ALL_KINDS)]


def test_the_command_names_a_seed_that_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_it(world: World, _: int) -> None:
        raise BrokenPromise("two of them")

    monkeypatch.setattr(NetworkWorld, "run", break_it)
    told = CliRunner().invoke(app, ["simulate", "--first", "17", "--seeds", "1", "--policy", "lru"])
    assert told.exit_code == 1
    assert "network world, seed 17: BrokenPromise: two of them" in told.stderr
    again = "tocsin simulate --kind network --first 17 --seeds 1 --happenings 60 --policy 'lru'"
    assert again in told.stderr


def test_the_command_refuses_what_it_does_not_know() -> None:
    told = CliRunner().invoke(app, ["simulate", "--kind", "moon"])
    assert told.exit_code != 0
    assert "no kind of world is called 'moon'" in str(told.exception)
