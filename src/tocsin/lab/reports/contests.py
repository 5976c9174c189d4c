"""Who wins, cell by cell: one policy of ours against everybody, or the best of several."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from msgspec import Struct

from tocsin.lab.reports.verdicts import shown
from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.claims import Case, Judged, View, difference
from tocsin.lab.spec.experiment import Winners
from tocsin.lab.spec.statistics import Estimate, estimate

WON, TIED, LOST = "✔", "≈", "✘"
KEY = (
    "✔ better than each of the others; ≈ the seeds do not tell it from some of them; ✘ worse than "
    "at least one. Named is the rival that comes nearest (or is furthest ahead), with the "
    "difference to it, paired by seed, and its 95 % confidence interval."
)
WINNERS_KEY = (
    "The best mean, and after it those that the seeds do not tell from it (differences are paired "
    "by seed, with 95 % confidence)."
)


class Contest(Struct, frozen=True):
    """One claim: a row a variant, a column a size."""

    says: str
    columns: list[str]
    rows: list[list[str]]


def contests(judged: Sequence[Judged]) -> list[Contest]:
    """Of our own claims that compare one policy with others in one metric."""
    by_claim: dict[str, list[Judged]] = {}
    for judgement in judged:
        cases = judgement.finding.cases
        alike = len({case.metric for case in cases}) == 1 and all(case.better for case in cases)
        if judgement.claim.own and alike:
            by_claim.setdefault(judgement.claim.name, []).append(judgement)
    return [_contest(group) for group in by_claim.values()]


def winners(declared: Winners, points: pd.DataFrame, axis: Axis) -> Contest:
    """A row a variant of this axis, a column a value of it."""
    variants = dict.fromkeys(str(variant) for variant in points["variant"])
    views = [View(points, variant, axis) for variant in variants]
    places = sorted({at for view in views for at in view.places})
    rows = [[view.variant, *(_winners(declared, view, at) for at in places)] for view in views]
    return Contest(declared.title, ["variant", *(axis.in_words(at) for at in places)], rows)


def _winners(declared: Winners, view: View, at: int) -> str:
    sign = -1 if declared.more else 1
    means = {
        policy: sign * estimate(view.values(declared.metric, policy, at)).mean
        for policy in declared.policies
        if policy in view.policies
    }
    ranked = [policy for policy in sorted(means, key=means.__getitem__) if at in view.places]
    first, *others = ranked or [""]
    near = [
        other
        for other in others
        if not _behind(difference(view, declared.metric, other, first, at), declared.more)
    ]
    return " or ".join([first, *near])


def _behind(apart: Estimate, more: bool) -> bool:
    return apart.below(0) if more else apart.above(0)


def _contest(judged: list[Judged]) -> Contest:
    groups = list(
        dict.fromkeys(group for judgement in judged for group in judgement.finding.groups)
    )
    rows = []
    for judgement in judged:
        cells = [
            [case for case in judgement.finding.cases if case.group == group] for group in groups
        ]
        rows.append([judgement.variant, *(_cell(cases) if cases else "" for cases in cells)])
    return Contest(judged[0].claim.says, ["variant", *groups], rows)


def _cell(cases: list[Case]) -> str:
    hardest = min(cases, key=lambda case: case.margin)
    lost = any(case.lost for case in cases)
    mark = LOST if lost else WON if all(case.holds for case in cases) else TIED
    rival = hardest.compared.split(" − ")[-1]
    return f"{mark} {rival} {shown(hardest)}"
