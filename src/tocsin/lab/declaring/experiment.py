"""What an experiment declares. It is data: one file in `experiments/`; knows no Spark, files or
drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tocsin.lab.declaring.axis import Axis
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.figures import Figure
from tocsin.lab.declaring.subject import Subject


class Reading(Struct, frozen=True, kw_only=True):
    """One way to read what a paper leaves open, or another place to look: settings of the workload
    or of its surroundings, under a name."""

    name: str
    meaning: str
    settings: dict[str, Any]
    bounded: bool = True  # whether the bound holds for it


class Extent(Struct, frozen=True, kw_only=True):
    """How much is swept; `settings` shrink the workload for a quick look."""

    values: tuple[int, ...]  # of the axis
    instead: dict[str, tuple[int, ...]] = {}  # of readings that go along another axis
    seeds: int
    first_seed: int = 1  # others follow it
    bound_seeds: int = 0  # the bound is dear and varies little: a few seeds do
    settings: dict[str, Any] = {}
    only: dict[str, tuple[int, ...]] = {}  # policies that are run at some values alone, and which

    def of(self, reading: str) -> tuple[int, ...]:
        return self.instead.get(reading, self.values)


class Live(Struct, frozen=True, kw_only=True):
    """How much is played on the live system, where a point takes seconds."""

    on: str  # what is started for it
    full: Extent
    quick: Extent
    readings: tuple[str, ...] = ()  # if none are asked for; empty: the first
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
    subject: Subject
    axis: Axis
    readings: tuple[Reading, ...]
    policies: tuple[str, ...]
    full: Extent
    quick: Extent
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    means: dict[str, str]  # metrics whose means are told in tables, and the titles of those
    winners: tuple[Winners, ...] = ()
    settings: dict[str, Any] = {}  # what is not as the subject has it, in all readings
    recordings: Callable[[Path], list[Recording]] | None = None  # what is in a file or directory
    live: Live | None = None

    def __post_init__(self) -> None:
        if any(reading.name == RECORDED for reading in self.readings):
            raise ValueError(f"{self.name}: {RECORDED!r} is the reading of recorded workloads")
        columns = {axis.column for axis in (self.axis, *self.axis.instead.values())}
        if len(columns) > 1:
            raise ValueError(f"{self.name}: its axes are in the columns {sorted(columns)}")


RECORDED = "data"
"""The reading under which recorded workloads are played."""
