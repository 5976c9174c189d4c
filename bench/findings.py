"""What a benchmark finds: our figure beside its baseline, shown as a table and kept as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from tocsin.demo.ledger import percentile

WIDTH = 150  # of what is no terminal
RESULTS = Path(__file__).parent / "results"


class Finding(Struct, frozen=True, kw_only=True):
    """One claim. `ratio` says how many times better ours is than the baseline."""

    claim: str
    unit: str
    ours: float
    baseline: float
    baseline_is: str
    lower_is_better: bool = False
    target: float | None = None  # for `ours`, in `unit`
    details: dict[str, Any] = {}

    @property
    def ratio(self) -> float:
        return self.baseline / self.ours if self.lower_is_better else self.ours / self.baseline

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ours <= self.target if self.lower_is_better else self.ours >= self.target


def latency(
    claim: str,
    share: float,
    ours_ms: Sequence[float],
    theirs_ms: Sequence[float],
    details: Mapping[str, Any] | None = None,
    **given: Any,
) -> Finding:
    """A percentile of how long something took, beside the same of the baseline."""
    ours, theirs = percentile(ours_ms, share), percentile(theirs_ms, share)
    assert ours is not None
    assert theirs is not None
    return Finding(
        claim=f"{claim}, p{100 * share:.0f}",
        unit="ms",
        ours=ours,
        baseline=theirs,
        lower_is_better=True,
        details={"samples": len(ours_ms), **(details or {})},
        **given,
    )


def as_table(name: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=f"bench: {name}", title_justify="left")
    for column in ("claim", "ours", "baseline", "ratio", "target", "the baseline"):
        table.add_column(column, justify="left" if column.startswith(("claim", "the")) else "right")
    for finding in findings:
        target = "-"
        if finding.target is not None:
            style = "green" if finding.met else "bold red"
            sign = "<" if finding.lower_is_better else ">"
            target = f"[{style}]{sign} {_figure(finding.target)}[/]"
        table.add_row(
            finding.claim,
            f"{_figure(finding.ours)} {finding.unit}",
            f"{_figure(finding.baseline)} {finding.unit}",
            f"{finding.ratio:.3g}x",
            target,
            finding.baseline_is,
        )
    return table


def save(name: str, findings: Sequence[Finding], *, quick: bool, folder: Path = RESULTS) -> Path:
    """One JSON file per benchmark and run, with what the figures depend on."""
    now = datetime.now(UTC)
    document = {
        "bench": name,
        "at": now.isoformat(timespec="seconds"),
        "quick": quick,
        "machine": {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "findings": [
            msgspec.structs.asdict(finding) | {"ratio": finding.ratio, "met": finding.met}
            for finding in findings
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{now:%Y%m%d-%H%M%S}-{name}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2))
    return file


def console() -> Console:
    """Standard output; tables in a file are not folded to the width of a small terminal."""
    out = Console()
    return out if out.is_terminal else Console(width=WIDTH)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
