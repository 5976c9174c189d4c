"""What was measured beside what the simulation says of it, step by step, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bench.findings import Finding


def tables(findings: Sequence[Finding]) -> list[Table]:
    return [
        _table(finding)
        for finding in findings
        if "simulated" in finding.details and "sets" in finding.details
    ]


def _table(finding: Finding) -> Table:
    table = Table(title=f"{finding.details['sets']:,} sets", title_justify="left")
    for column in (
        "offered/s",
        "others",
        "achieved",
        "simulated",
        "p50 ms",
        "simulated",
        "p99 ms",
        "simulated",
    ):
        table.add_column(column, justify="right")
    steps = zip(finding.details["measured"], finding.details["simulated"], strict=True)
    for measured, simulated in steps:
        table.add_row(
            f"{measured['offered']:,.0f}",
            f"{measured['others_cores']:.1f}",
            *(
                f"{step[key]:,.0f}"
                for key in ("achieved", "p50_ms", "p99_ms")
                for step in (measured, simulated)
            ),
        )
    return table
