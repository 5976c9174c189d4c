"""What the prototype experiment leaves: a table of its points, and a picture (BAD, Figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tocsin.lab.prototype.comparison import NONE, Row
from tocsin.lab.reports.frame import frame
from tocsin.lab.reports.looks import LINE_STYLES, look

TABLE = "points.parquet"
PICTURE = "figure-7.png"
_Value = Callable[[Row], float]
PANELS: tuple[tuple[str, _Value, _Value], ...] = (
    ("hit ratio", lambda r: r.measured.hit_ratio, lambda r: r.predicted.hit_ratio),
    (
        "latency, mean (ms)",
        lambda r: r.measured.latency_mean_ms,
        lambda r: r.predicted.latency_mean_ms,
    ),
    (
        "fetched from the cluster (MB)",
        lambda r: r.measured.fetched_bytes / 1e6,
        lambda r: r.predicted.fetched_bytes / 1e6,
    ),
)


def write_prototype(rows: Sequence[Row], directory: Path) -> None:
    pq.write_table(pa.Table.from_pylist([row.flat() for row in rows]), directory / TABLE)
    canvas = Canvas(figsize=(15, 4.6), dpi=130, layout="constrained")
    grid = canvas.subplots(1, len(PANELS))
    for axes, (name, measured, predicted) in zip(grid, PANELS, strict=True):
        _draw(axes, rows, measured, predicted)
        axes.set_ylabel(name, fontsize=12)
        axes.set_xlabel("cache size of each broker (KB); 0: no cache", fontsize=11)
        frame(axes)
    handles, labels = grid[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside right center", frameon=False)
    canvas.suptitle("The live system (solid) and what a recording of it predicts (dashed)")
    canvas.savefig(directory / PICTURE)


def _draw(axes: Axes, rows: Sequence[Row], measured: _Value, predicted: _Value) -> None:
    """Every policy's curve begins at the run without a cache."""
    policies = list(dict.fromkeys(r.measured.policy for r in rows if r.measured.policy != NONE))
    for policy in policies:
        chosen = [row for row in rows if row.measured.policy in (NONE, policy)]
        chosen.sort(key=lambda row: row.measured.size_bytes)
        sizes = [row.measured.size_bytes / 1e3 for row in chosen]
        style = look(policy, policies)
        axes.plot(
            sizes,
            [measured(row) for row in chosen],
            color=style.colour,
            marker=style.marker,
            label=policy,
        )
        axes.plot(
            sizes,
            [predicted(row) for row in chosen],
            color=style.colour,
            linestyle=LINE_STYLES["dashed"],
            label=f"{policy}, predicted",
        )
    axes.set_ylim(bottom=0)
