"""`python -m bench.sustain`: the same with other profiles, shapes, sizes and rates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.findings import RESULTS, as_table, console, save
from bench.sustain import measure, tables
from bench.sustain.plan import HELD_MOST, PROFILES, RATES, Pace, case
from bench.sustain.shapes import SHAPES


def main() -> int:
    asked = _arguments().parse_args()
    pace = Pace(
        tuple(asked.rates), asked.seconds, asked.warm_up, asked.warm_up_rate, asked.patience
    )
    cases = [
        case(profile, shape, sets, asked.held, asked.clients)
        for profile in asked.profile
        for shape in asked.shape
        for sets in asked.sets
    ]
    err = Console(stderr=True)
    findings = measure(cases, pace, lambda what: err.print(f"[dim]{what}[/]", soft_wrap=True))
    out = console()
    for table in (*tables(findings), as_table("sustain", findings)):
        out.print(table)
    err.print(f"[dim]{save('sustain', findings, quick=False, folder=asked.results)}[/]")
    return 1 if any(finding.met is False for finding in findings) else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.sustain", description=__doc__)
    add = parser.add_argument
    add("--profile", nargs="+", choices=PROFILES, default=["embedded"])
    add("--shape", nargs="+", choices=list(SHAPES), default=["equality"])
    add("--sets", nargs="+", type=int, default=[1000], help="parameter sets of the channel")
    add("--rates", nargs="+", type=int, default=RATES, help="records a second, step by step")
    add("--seconds", type=float, default=Pace().seconds, help="how long each step takes")
    add("--warm-up", type=float, default=Pace().warm_up_s, help="seconds")
    add("--warm-up-rate", type=int, default=Pace().warm_up_rate)
    add("--patience", type=float, default=0.0, help="wait before a step for a quiet machine, s")
    add(
        "--held",
        type=int,
        default=0,
        help=f"sets that connected clients hold (all to {HELD_MOST:,})",
    )
    add("--clients", type=int, default=1, help="processes that share these")
    add("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
