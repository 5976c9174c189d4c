"""Judged claims as text and as a table: verdict, numbers, and where a claim does not hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.lab.spec.claims import Case, Finding, Judged
from tocsin.lab.spec.statistics import Estimate

SHOWN_FAILURES = 3
LISTED_FAILURES = 12
MARKS = {"reproduced": "✔", "partly": "◐", "not reproduced": "✘", "not tested": "–"}
OWN_WORDS = {"reproduced": "holds", "not reproduced": "does not hold"}


def verdict(judged: Judged) -> str:
    """Our own claims are not reproduced, they hold."""
    word: str = judged.finding.verdict
    return OWN_WORDS.get(word, word) if judged.claim.own else word


def numbers(finding: Finding) -> str:
    """One line: in how much of it the claim holds, and the values that show it."""
    if finding.missing:
        return finding.missing
    groups = finding.groups
    held = f"{sum(groups.values())} of {len(groups)} {finding.groups_are}"
    failing = failures(finding)
    if failing:
        shown = "; ".join(describe(case) for case in failing[:SHOWN_FAILURES])
        more = len(failing) - SHOWN_FAILURES
        return f"{held}; not: {shown}" + (f"; and {more} more" if more > 0 else "")
    ranked = sorted(finding.cases, key=lambda case: case.value.mean)
    ends = [ranked[0]] if len(ranked) == 1 else [ranked[0], ranked[-1]]
    return f"{held}; {' … '.join(describe(case) for case in ends)}"


def failures(finding: Finding) -> list[Case]:
    """Cases that do not hold, the clearest first."""
    failing = [case for case in finding.cases if not case.holds]
    return sorted(failing, key=lambda case: -_clearness(case.value))


def _clearness(value: Estimate) -> float:
    """How many half widths of its interval a difference is away from 0."""
    if not value.certain or math.isnan(value.mean):
        return 0.0
    half = (value.high - value.low) / 2
    return math.inf if half == 0 else abs(value.mean) / half


def describe(case: Case) -> str:
    at = "" if case.compared.startswith(case.group) else f" at {case.place}"
    name = "" if case.unitless else f" {case.metric}"
    return f"{case.compared}{name}{at} {shown(case)}"


def shown(case: Case) -> str:
    """The value with its interval, in readable units."""
    value, scale, unit = case.value, 1.0, ""
    largest = max(abs(value.mean), abs(value.low), abs(value.high))
    if not case.unitless and case.metric.endswith("_bytes"):
        scale, unit = (1e9, " GB") if largest >= 1e9 else (1e6, " MB")
    elif not case.unitless and case.metric.endswith("_s") and not case.metric.endswith("_per_s"):
        scale, unit = (1e-3, " ms") if largest < 0.1 else (1.0, " s")
    ends = [value.mean, value.low, value.high] if value.certain else [value.mean]
    mean, *interval = (
        _figure(end / scale, signed=not (case.unitless or case.level)) for end in ends
    )
    return f"{mean} [{', '.join(interval)}]{unit}" if interval else f"{mean}{unit}"


def _figure(value: float, *, signed: bool) -> str:
    """Four digits, without an exponent."""
    if value == 0 or math.isnan(value):
        return f"{value:g}"
    digits = max(0, min(6, 3 - math.floor(math.log10(abs(value)))))
    text = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


def tally(judged: Sequence[Judged]) -> list[str]:
    """How many of the paper's claims, variant by variant; nothing where there are none."""
    lines = []
    for variant in dict.fromkeys(judgement.variant for judgement in judged):
        words = [
            verdict(judgement)
            for judgement in judged
            if judgement.variant == variant and not judgement.claim.own
        ]
        counts = [f"{words.count(word)} {word}" for word in MARKS if word in words]
        if counts:
            lines.append(f"Of the paper's claims, variant “{variant}”: {', '.join(counts)}.")
    return lines


def markdown(judged: Sequence[Judged], title: str) -> str:
    """claims.md: a table of all, then where and by how much each one fails."""
    lines = [f"# {title}", "", *(f"{line}\n" for line in tally(judged))]
    for own, heading in ((False, "The paper's claims"), (True, "Our own claims")):
        mine = [judgement for judgement in judged if judgement.claim.own is own]
        if not mine:
            continue
        lines += [f"## {heading}", "", "| | claim | figure | variant | verdict | numbers |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [
            f"| {MARKS[judgement.finding.verdict]} | {_cell(judgement.claim.says)} "
            f"| {judgement.claim.where} | {judgement.variant} "
            f"| {verdict(judgement)} | {_cell(numbers(judgement.finding))} |"
            for judgement in mine
        ]
        lines.append("")
    lines += [
        "Numbers are means over seeds; differences are paired by seed; brackets are 95 % "
        "confidence intervals (Student's t). A case holds when its whole interval does.",
        "",
        "## What was asked for, and where it fails",
        "",
    ]
    for judgement in judged:
        lines += _details(judgement)
    return "\n".join(lines) + "\n"


def _details(judgement: Judged) -> list[str]:
    lines = [
        f"### {judgement.claim.name}, variant {judgement.variant}: {verdict(judgement)}",
        "",
        f"Asked for: {judgement.claim.rule}.",
        "",
    ]
    failing = failures(judgement.finding)
    listed = failing if judgement.claim.own else failing[:LISTED_FAILURES]
    lines += [f"- fails: {describe(case)}" for case in listed]
    if len(failing) > len(listed):
        lines.append(f"- and {len(failing) - len(listed)} more, in claims.parquet")
    return [*lines, ""] if failing else lines


def write_cases(judged: Sequence[Judged], file: Path) -> None:
    """claims.parquet: one row a case; a claim that was not tested has one without numbers."""
    rows = []
    for judgement in judged:
        about = {
            "claim": judgement.claim.name,
            "says": judgement.claim.says,
            "figure": judgement.claim.where,
            "rule": judgement.claim.rule,
            "own": judgement.claim.own,
            "variant": judgement.variant,
            "verdict": judgement.finding.verdict,
            "missing": judgement.finding.missing,
        }
        rows += [
            about
            | {
                "group": case.group,
                "at": case.at,
                "case": case.compared,
                "metric": case.metric,
                "value": case.value.mean,
                "low": case.value.low,
                "high": case.value.high,
                "seeds": case.value.seeds,
                "holds": case.holds,
            }
            for case in judgement.finding.cases
        ] or [about]
    names = list(dict.fromkeys(name for row in rows for name in row))
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), file)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
