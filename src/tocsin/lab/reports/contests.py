"""Our own claims against everybody, cell by cell: where one policy wins, ties and loses."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tocsin.lab.declaring.claims import Case, Judged
from tocsin.lab.reports.verdicts import shown

WON, TIED, LOST = "✔", "≈", "✘"
KEY = (
    "✔ better than each of the others; ≈ the seeds do not tell it from some of them; ✘ worse than "
    "at least one. Named is the rival that comes nearest (or is furthest ahead), with the "
    "difference to it, paired by seed, and its 95 % confidence interval."
)


class Contest(Struct, frozen=True):
    """One claim: a row a reading, a column a size."""

    says: str
    columns: list[str]
    rows: list[list[str]]


def contests(judged: Sequence[Judged]) -> list[Contest]:
    """Of our own claims that compare one policy with others in one metric."""
    by_claim: dict[str, list[Judged]] = {}
    for one in judged:
        cases = one.finding.cases
        alike = len({case.metric for case in cases}) == 1 and all(case.better for case in cases)
        if one.claim.own and alike:
            by_claim.setdefault(one.claim.name, []).append(one)
    return [_contest(found) for found in by_claim.values()]


def _contest(found: list[Judged]) -> Contest:
    groups = list(dict.fromkeys(group for one in found for group in one.finding.groups))
    rows = []
    for one in found:
        cells = [[case for case in one.finding.cases if case.group == group] for group in groups]
        rows.append([one.reading, *(_cell(cases) if cases else "" for cases in cells)])
    return Contest(found[0].claim.says, ["reading", *groups], rows)


def _cell(cases: list[Case]) -> str:
    hardest = min(cases, key=lambda case: case.margin)
    lost = any(case.lost for case in cases)
    mark = LOST if lost else WON if all(case.holds for case in cases) else TIED
    rival = hardest.told.split(" − ")[-1]
    return f"{mark} {rival} {shown(hardest)}"
