"""What an experiment declares. It is data: one file in `experiments/`; knows no Spark, files or
drawing.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.figures import Figure


class Reading(Struct, frozen=True, kw_only=True):
    """One way to read what a paper leaves open, or another place to look: settings of the
    workload, under a name."""

    name: str
    meaning: str
    settings: dict[str, Any]


class Extent(Struct, frozen=True, kw_only=True):
    """How much is swept; `settings` shrink the workload for a quick look."""

    sizes_bytes: tuple[int, ...]
    seeds: int
    first_seed: int = 1  # others follow it
    bound_seeds: int = 0  # the bound is dear and varies little: a few seeds do
    settings: dict[str, Any] = {}


class Experiment(Struct, frozen=True, kw_only=True):
    name: str
    purpose: str  # one line
    source: str  # where figures and claims come from
    readings: tuple[Reading, ...]
    policies: tuple[str, ...]
    full: Extent
    quick: Extent
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
