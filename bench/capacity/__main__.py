"""`python -m bench.capacity`: for another profile, and into files of your choice."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.capacity import QUICK, WHOLE, measure
from bench.capacity.tables import tables
from bench.findings import RESULTS, as_table, console, save
from tocsin.lab.capacity.costs import PROFILES, encode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("--profile", choices=PROFILES, default="embedded")
    parser.add_argument("--quick", action="store_true", help="shorter rounds")
    parser.add_argument("--costs", type=Path, help="file for the costs; beside the figures if none")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON file")
    asked = parser.parse_args()
    err, out = Console(stderr=True), console()

    def say(what: str) -> None:
        err.print(f"[dim]{what}[/]", soft_wrap=True)

    costs, findings = measure(asked.profile, QUICK if asked.quick else WHOLE, say)
    for table in (*tables(findings), as_table("capacity", findings)):
        out.print(table)
    file = save("capacity", findings, quick=asked.quick, folder=asked.results)
    costs_file = asked.costs or asked.results / f"costs-{asked.profile}.json"
    costs_file.write_bytes(encode(costs))
    say(f"{file}\n{costs_file}")
    return 1 if any(finding.met is False for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
