"""Worlds of one kind played seed by seed, in this process or in several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from tocsin.testing.simulation import KINDS

_SEEDS_AT_ONCE = 5


class Played(NamedTuple):
    seed: int
    delivered: int
    gaps: int
    broken: str | None  # what the checker says, or how the world ended


def play(kind: str, policies: Sequence[str], happenings: int, seed: int) -> Played:
    world = KINDS[kind](seed, policies)
    broken = None
    try:
        world.run(happenings)
    except Exception as error:  # whatever it is, the seed shows it again
        broken = f"{type(error).__name__}: {error}"
    return Played(seed, world.delivered, world.gaps, broken)


def play_all(
    kind: str, policies: Sequence[str], happenings: int, seeds: range, *, jobs: int
) -> Iterator[Played]:
    """In the order of the seeds, `jobs` at a time."""
    one_seed = partial(play, kind, policies, happenings)
    if jobs == 1:
        yield from map(one_seed, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one_seed, seeds, chunksize=_SEEDS_AT_ONCE)
