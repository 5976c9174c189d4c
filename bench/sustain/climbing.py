"""Steps upwards until one is not sustained, and what these say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from bench.findings import Finding
from bench.sustain.cpu import quiet
from bench.sustain.plan import LOW_RATE, TARGETS, Case, Pace
from bench.sustain.sides import Side
from bench.sustain.steps import Step, as_json, at_rate, highest

Climb = list[Step]
BASELINE = "a plain Spark job that only writes its matches"
NEAR_MISS = 0.6  # of what was offered; the machine has its moods, and such a step is tried again
ATTEMPTS = 3


async def climb(side: Side, pace: Pace, say: Callable[[str], None], title: str) -> Climb:
    say(f"{title}, warming up")
    warm = await side.warm_up(pace.warm_up_rate, pace.warm_up_s)
    if warm.came < warm.records:
        say(f"{title}: only {warm.came} of {warm.records} records came while it was warming up")
    steps: Climb = []
    for rate in pace.rates:
        for attempt in range(1, ATTEMPTS + 1):
            say(f"{title}, {rate:,} records/s" + (f", attempt {attempt}" if attempt > 1 else ""))
            await quiet(pace.patience_s)
            steps.append(await side.step(rate, pace.seconds))
            if steps[-1].sustained or not _nearly(steps[-1]):
                break
        if not steps[-1].sustained:
            break
    return steps


def _nearly(step: Step) -> bool:
    return step.came == step.records and step.achieved >= NEAR_MISS * step.offered


def findings_of(case: Case, ours: Climb, plain: Climb) -> list[Finding]:
    """The first one's details have all steps."""
    target = TARGETS[case.profile]
    best, rival = highest(ours), highest(plain)
    findings = [
        Finding(
            claim=f"{case.title}: sustained",
            unit="/s",
            ours=best.offered if best else 0.0,
            baseline=rival.offered if rival else max(1.0, plain[0].achieved),
            baseline_is=BASELINE,
            target=target.rate,
            details={"case": case, "ours": as_json(ours), "baseline": as_json(plain)},
        )
    ]
    for share, limit_ms in (("p50", target.low_p50_ms), ("p99", target.low_p99_ms)):
        findings += _latencies(case, ours, plain, LOW_RATE, share, limit_ms)
    if best is not None:
        findings += _latencies(case, ours, plain, best.offered, "p50", None)
        findings += _latencies(case, ours, plain, best.offered, "p99", target.p99_ms)
        same = at_rate(plain, best.offered)
        if same is not None:
            findings.append(
                _lower(f"{case.title}: CPU per record at {best.offered:,.0f}/s", "us",
                       best.whole_cpu_us, same.whole_cpu_us)
            )  # fmt: skip
    return findings


def _latencies(
    case: Case, ours: Climb, plain: Climb, rate: float, share: str, target_ms: float | None
) -> list[Finding]:
    """None if one of the two had no such step."""
    ours_then, theirs_then = at_rate(ours, rate), at_rate(plain, rate)
    if ours_then is None or theirs_then is None:
        return []
    claim = f"{case.title}: {share} at {rate:,.0f}/s"
    figures = (getattr(step, f"{share}_ms") for step in (ours_then, theirs_then))
    return [_lower(claim, "ms", *figures, target=target_ms)]


def _lower(claim: str, unit: str, ours: float, baseline: float, **more: Any) -> Finding:
    return Finding(
        claim=claim,
        unit=unit,
        ours=ours,
        baseline=baseline,
        baseline_is=BASELINE,
        lower_is_better=True,
        **more,
    )


def tables(findings: Sequence[Finding]) -> list[Table]:
    """All steps, as people read them."""
    shown = []
    for finding in findings:
        for side in ("ours", "baseline"):
            if side in finding.details:
                title = f"{finding.claim.rpartition(':')[0]}: {side}"
                shown.append(_table(title, finding.details[side]))
    return shown


def _table(title: str, steps: Sequence[dict[str, Any]]) -> Table:
    processes = list(dict.fromkeys(name for step in steps for name in step["cpu_us"]))
    table = Table(
        title=f"{title} (of processes: CPU in us per record; others: cores)", title_justify="left"
    )
    columns = ("offered/s", "achieved", "sustained", "p50 ms", "p99 ms", "sent p99", "others")
    for column in (*columns, *processes):
        table.add_column(column, justify="right")
    for step in steps:
        table.add_row(
            f"{step['offered']:,.0f}",
            f"{step['achieved']:,.0f}",
            "[green]yes[/]" if step["sustained"] else "[red]no[/]",
            *(f"{step[key]:,.0f}" for key in ("p50_ms", "p99_ms", "send_p99_ms")),
            f"{step['others_cores']:.1f}",
            *(f"{step['cpu_us'].get(name, 0):,.0f}" for name in processes),
        )
    return table
