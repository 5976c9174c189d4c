"""What a paper's text (or ours) claims about a sweep, and how the claim is judged by the points.

A claim is judged for each variant on its own. Its check takes the variant's points apart into
*cases* (one comparison each, paired by seed, with a 95 % confidence interval) and *groups* of
cases (mostly: one for each value of the axis). A case holds when the whole interval lies on the
claimed side.

    reproduced       every case holds
    partly           every case of at least one group holds
    not reproduced   no group holds
    not tested       the points it needs are not in the table

Knows nothing of any one experiment: the claims themselves stand beside its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.columns import bound_columns
from tocsin.lab.spec.statistics import Estimate, estimate

Values = NDArray[np.float64]
Verdict = Literal["reproduced", "partly", "not reproduced", "not tested"]


class Case(Struct, frozen=True, kw_only=True):
    """One comparison: `value` is what the interval is of."""

    compared: str  # such as "ttl − lsc"
    metric: str
    value: Estimate
    holds: bool
    at: int  # the value of the axis
    place: str = ""  # the same as people say it
    group: str = ""  # its place, if nothing else is said
    unitless: bool = False  # a ratio; else the value is in the metric's own unit
    level: bool = False  # a value by itself; else a difference, shown with its sign
    better: int = 0  # of a contest: 1 if more speaks for the claim, -1 if less does

    @property
    def margin(self) -> float:
        """The end of the interval that speaks most against it."""
        value = self.value if self.better > 0 else self.value.negated()
        return value.low if value.certain else value.mean

    @property
    def lost(self) -> bool:
        """Not only is the claim not shown here: the opposite is."""
        return self.value.below(0) if self.better > 0 else self.value.above(0)


class Finding(Struct, frozen=True):
    """The cases of one claim under one variant."""

    cases: tuple[Case, ...]
    missing: str = ""  # what the table lacks
    groups_are: str = "groups"  # what the groups are called

    @property
    def groups(self) -> dict[str, bool]:
        """Each group, and whether all of its cases hold."""
        groups: dict[str, bool] = {}
        for case in self.cases:
            groups[case.group] = groups.get(case.group, True) and case.holds
        return groups

    @property
    def verdict(self) -> Verdict:
        if self.missing or not self.cases:
            return "not tested"
        groups = self.groups
        if all(groups.values()):
            return "reproduced"
        return "partly" if any(groups.values()) else "not reproduced"


class View:
    """The points of one variant: simulations, and the bounds that were computed."""

    def __init__(self, points: pd.DataFrame, variant: str, axis: Axis) -> None:
        here = points[points["variant"] == variant]
        self.variant, self.axis = variant, axis
        self.points = here[here["kind"] == "simulation"]
        self.bounds = here[here["kind"] == "bound"]
        self._values: dict[str, dict[tuple[str, int], Values]] = {}

    @cached_property
    def places(self) -> list[int]:
        """The values of the axis."""
        return sorted(int(at) for at in self.points[self.axis.column].unique())

    def only(self, places: Collection[int]) -> View:
        """What was found at these values of the axis."""
        both = pd.concat([self.points, self.bounds])
        here = both[both[self.axis.column].isin(list(places))]
        return View(here, self.variant, self.axis)

    @cached_property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(str(policy) for policy in self.points["policy"]))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted(int(seed) for seed in self.points["seed"].unique())

    def values(self, name: str, policy: str, at: int) -> Values:
        """One a seed, NaN where there is no point: differences of two of them are paired."""
        if name not in self._values:
            by_point = self.points.set_index(["policy", self.axis.column, "seed"])[name]
            table = by_point.unstack("seed").reindex(columns=self.seeds)
            rows = table.to_numpy(dtype=float)
            self._values[name] = {
                (str(key[0]), int(key[1])): row for key, row in zip(table.index, rows, strict=True)
            }
        nothing = np.full(len(self.seeds), np.nan)
        return self._values[name].get((policy, at), nothing)

    def best(self, metric: str, at: int) -> Values:
        """The proven bound, one a seed; NaN where it was not computed."""
        here = self.bounds[self.bounds[self.axis.column] == at].set_index("seed")
        return here[bound_columns(metric)[0]].reindex(self.seeds).to_numpy(dtype=float)

    def lacks(self, policies: Iterable[str], metrics: Iterable[str] = ()) -> str:
        """What is missing for a claim about these; empty when nothing is."""
        absent = [policy for policy in policies if policy not in self.policies]
        if absent:
            return f"no points of {', '.join(absent)}"
        empty = [
            name for name in metrics if name not in self.points or self.points[name].isna().all()
        ]
        return f"no column {', '.join(empty)}" if empty else ""


Check = Callable[[View], Finding]


class Claim(Struct, frozen=True, kw_only=True):
    """A sentence, where it stands, and the function that judges it."""

    name: str
    says: str  # the sentence, in the claimant's words
    where: str  # the figure it speaks of
    rule: str  # what we ask for, so that "similar" or "slightly" is a number
    check: Check
    own: bool = False  # ours, not the paper's
    variants: tuple[str, ...] | None = None  # that it speaks of; None: all


class Judged(Struct, frozen=True):
    claim: Claim
    variant: str
    finding: Finding


def judge(claims: Sequence[Claim], points: pd.DataFrame, axis: Axis) -> list[Judged]:
    """Every claim under every variant in the table that it speaks of."""
    variants = dict.fromkeys(str(variant) for variant in points["variant"])
    views = {variant: View(points, variant, axis.of(variant)) for variant in variants}
    return [
        Judged(claim, variant, claim.check(view))
        for claim in claims
        for variant, view in views.items()
        if claim.variants is None or variant in claim.variants
    ]


def difference(view: View, metric: str, policy: str, other: str, at: int) -> Estimate:
    """policy − other at this value of the axis, paired by seed."""
    return estimate(view.values(metric, policy, at) - view.values(metric, other, at))
