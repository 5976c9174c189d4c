"""What an experiment declares. It is data: one file in `experiments/`; knows no Spark, files or
drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.figures import Figure
from tocsin.lab.spec.study import Study


class Variant(Struct, frozen=True, kw_only=True):
    """One way to read what a paper leaves open, or another place to look: settings of the workload
    or of its environment, under a name."""

    name: str
    meaning: str
    settings: dict[str, Any]
    bounded: bool = True  # whether the bound holds for it


def variants_of(table: dict[str, tuple[str, dict[str, Any]]]) -> tuple[Variant, ...]:
    """From a name, what it means and its settings, each."""
    return tuple(
        Variant(name=name, meaning=meaning, settings=settings)
        for name, (meaning, settings) in table.items()
    )


class Extent(Struct, frozen=True, kw_only=True):
    """How much is swept; `settings` shrink the workload for a quick look."""

    values: tuple[int, ...]  # of the axis
    instead: dict[str, tuple[int, ...]] = {}  # of variants that go along another axis
    seeds: int
    first_seed: int = 1  # others follow it
    bound_seeds: int = 0  # the bound is dear and varies little: a few seeds do
    settings: dict[str, Any] = {}
    only: dict[str, tuple[int, ...]] = {}  # policies that are run at some values alone, and which

    def of(self, variant: str) -> tuple[int, ...]:
        return self.instead.get(variant, self.values)


class Live(Struct, frozen=True, kw_only=True):
    """How much is played on the live system, where a point takes seconds."""

    on: str  # what is started for it
    full: Extent
    quick: Extent
    variants: tuple[str, ...] = ()  # if none are asked for; empty: the first
    servers: bool = False  # it can be played on a log and a database that are named


class Recording(Struct, frozen=True, kw_only=True):
    """A workload that was recorded: settings that lead to it, and a digest of what is in it."""

    value: int  # of the axis
    settings: dict[str, Any]
    digest: str


class Winners(Struct, frozen=True, kw_only=True):
    """A table that names the best of some policies in a metric, cell by cell."""

    title: str
    policies: tuple[str, ...]
    metric: str
    more: bool  # whether more of it is better


class Experiment(Struct, frozen=True, kw_only=True):
    name: str
    purpose: str  # one line
    source: str  # where figures and claims come from
    study: Study
    axis: Axis
    variants: tuple[Variant, ...]
    policies: tuple[str, ...]
    full: Extent
    quick: Extent
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    means: dict[str, str]  # metrics whose means are told in tables, and the titles of those
    winners: tuple[Winners, ...] = ()
    settings: dict[str, Any] = {}  # what is not as the study has it, in all variants
    recordings: Callable[[Path], list[Recording]] | None = None  # what is in a file or directory
    live: Live | None = None

    def __post_init__(self) -> None:
        if any(variant.name == RECORDED for variant in self.variants):
            raise ValueError(f"{self.name}: {RECORDED!r} is the variant of recorded workloads")
        columns = {axis.column for axis in (self.axis, *self.axis.instead.values())}
        if len(columns) > 1:
            raise ValueError(f"{self.name}: its axes are in the columns {sorted(columns)}")


RECORDED = "data"
"""The variant under which recorded workloads are played."""
