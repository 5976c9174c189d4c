"""`python -m bench [name …] [--quick]`: run benchmarks, print their tables, keep their figures."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.findings import RESULTS, Finding, as_table, console, save

BENCHES = {
    "log": "group commit of the publication log",
    "gateways": "publishing one by one, straight to the cluster and through gateways",
    "store": "results and parameter sets written in bulk on each database",
    "tables": "datasets on Delta Lake beside Parquet with our manifest",
    "forward": "from a run's rows to a broker's cache, forward and fetched back",
    "subscribing": "subscriptions made one by one and in lists, their weight, and a restart",
    "fanout": "WebSocket fan-out per core",
    "clients": "one client with very many subscriptions",
    "matching": "matching records with parameter sets",
    "beside_duckdb": "matching with a million parameter sets, beside DuckDB",
    "latency": "from publish to subscriber, end to end",
    "sustain": "how much is sustained, beside a plain Spark job",
    "growth": "what a record costs as parameter sets become more",
    "channels": "many continuous channels on one dataset",
    "runs": "runs of channels: from the log to committed results",
    "real_time": "real-time mode beside micro-batches and the embedded profile",
    "capacity": "what each single thing costs, and whether a simulation with these prices is right",
    "consumer_logs": "consumer logs in Kafka, shared and copied",
    "lab": "simulated events and requests a second",
    "survival": "message caches simulated, and their models",
    "takeover": "a standby takes the place of a leader that is stopped, killed, frozen or cut off",
    "overlay": "filters matched and covered, publications routed, the tree simulated",
    "pages": "page caches: operations a second, compiled and live",
    "poison": "what others wait beside poisonous bodies, statements and frames",
    "attachments": "attachments from a broker, beside nginx",
}
"""Name → what it measures; each is a module here with `run(quick, say) -> list[Finding]`. A module
that has `tables(findings)` too has more to show."""

Run = Callable[[bool, Callable[[str], None]], list[Finding]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    listed = ", ".join(f"{name} ({what})" for name, what in BENCHES.items())
    parser.add_argument("names", nargs="*", metavar="name", help=f"which: {listed}; all if none")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files")
    asked = parser.parse_args(arguments)
    for name in asked.names:
        if name not in BENCHES:
            parser.error(f"no bench is called {name!r}; there are {', '.join(BENCHES)}")
    out, err = console(), Console(stderr=True)
    missed = False
    for name in asked.names or BENCHES:
        with err.status(f"{name}: {BENCHES[name]} …") as status:

            def say(text: str, name: str = name) -> None:
                status.update(f"{name}: {text} …")

            module = importlib.import_module(f"bench.{name}")
            run: Run = module.run
            findings = run(asked.quick, say)
        for table in getattr(module, "tables", _no_tables)(findings):
            out.print(table)
        out.print(as_table(name, findings))
        file = save(name, findings, quick=asked.quick, folder=asked.results)
        err.print(f"[dim]{file}[/]", soft_wrap=True)
        missed |= any(finding.met is False for finding in findings)
    return 1 if missed else 0


def _no_tables(findings: Sequence[Finding]) -> Sequence[Table]:
    return ()


if __name__ == "__main__":
    sys.exit(main())
