"""Figures as PNG files, drawn with matplotlib: one panel a variant."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tocsin.lab.reports.curves import Curve, Panel
from tocsin.lab.reports.frame import frame
from tocsin.lab.reports.looks import BAND, COLOURS, LINE_STYLES, MARKERS, look, rows_and_columns
from tocsin.lab.spec.figures import Figure

PANEL_INCHES = (5.6, 4.0)
LEFT_INCHES, RIGHT_INCHES = 1.15, 2.3  # the legend is at the right
BOTTOM_INCHES, TOP_INCHES, BETWEEN_INCHES = 0.65, 0.75, 1.0
SLANTED_INCHES, LETTERS_OF_A_PANEL = 0.5, 70
DOTS_PER_INCH = 130
FONT_POINTS = 12


def draw(figure: Figure, panels: list[Panel], policies: list[str], file: Path) -> None:
    """Write the figure. `policies` fixes which colour each of them has in every figure."""
    rows, columns = rows_and_columns(len(panels))
    wide = PANEL_INCHES[0] * columns + LEFT_INCHES + RIGHT_INCHES
    slanted = any(_are_long(panel.names) for panel in panels)
    bottom = BOTTOM_INCHES + (SLANTED_INCHES if slanted else 0.0)
    high = PANEL_INCHES[1] * rows + BETWEEN_INCHES * (rows - 1) + bottom + TOP_INCHES
    canvas = Canvas(figsize=(wide, high), dpi=DOTS_PER_INCH)
    grid = canvas.subplots(rows, columns, squeeze=False, sharey=figure.one_scale)
    canvas.subplots_adjust(
        left=LEFT_INCHES / wide,
        right=1 - RIGHT_INCHES / wide,
        bottom=bottom / high,
        top=1 - TOP_INCHES / high,
        wspace=0.06 if figure.one_scale else 0.16,
        hspace=BETWEEN_INCHES / PANEL_INCHES[1],
    )
    _draw_panels(grid, figure, panels, policies)
    canvas.suptitle(figure.title, fontsize=FONT_POINTS + 2, fontweight="bold")
    _draw_legend(canvas, grid, 1 - (RIGHT_INCHES - 0.1) / wide)
    canvas.savefig(file)


def _draw_panels(grid: Any, figure: Figure, panels: list[Panel], policies: list[str]) -> None:
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        if panel.names:
            _draw_names(axes, panel)
        else:
            _draw_panel(axes, panel, policies)
            axes.set_xlabel(panel.axis.label, fontsize=FONT_POINTS)
            if panel.axis.logarithmic:
                _logarithmic(axes, panel)
        axes.set_title(f"variant: {panel.variant}", fontsize=FONT_POINTS)
    for row in grid:
        row[0].set_ylabel(figure.axis, fontsize=FONT_POINTS)


def _draw_legend(canvas: Canvas, grid: Any, left: float) -> None:
    """One for all panels."""
    handles: dict[str, Artist] = {}
    for axes in grid.flat:
        artists, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, artists, strict=True))
    if handles:
        canvas.legend(
            list(handles.values()),
            list(handles),
            loc="center left",
            bbox_to_anchor=(left, 0.5),
            fontsize=FONT_POINTS - 2,
            frameon=False,
        )


def _plain(axes: Axes) -> None:
    frame(axes)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=FONT_POINTS - 1)


def _logarithmic(axes: Axes, panel: Panel) -> None:
    """With the values themselves as ticks."""
    axes.set_xscale("log")
    ticks = sorted({x for curve in panel.curves for x in curve.xs})
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()


def _are_long(names: list[str]) -> bool:
    """Whether they do not fit beside each other below a panel."""
    return sum(len(name) + 2 for name in names) > LETTERS_OF_A_PANEL


def _draw_names(axes: Axes, panel: Panel) -> None:
    """What stands side by side: a mark and its interval each."""
    _plain(axes)
    for curve in panel.curves:
        axes.errorbar(
            curve.xs,
            curve.mean,
            yerr=_half(curve),
            fmt=MARKERS[0],
            color=COLOURS[0],
            markerfacecolor="none" if curve.dash == "dashed" else COLOURS[0],
            capsize=4,
            label=curve.label or None,
        )
    axes.set_xticks(range(len(panel.names)), panel.names)
    if _are_long(panel.names):
        for label in axes.get_xticklabels():
            label.set(rotation=25, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(panel.names) - 0.5)


def _half(curve: Curve) -> list[float]:
    """Half-widths of the intervals; 0 where there is none."""
    return [
        0.0 if math.isnan(end) else end - mean
        for mean, end in zip(curve.mean, curve.high, strict=True)
    ]


def _draw_panel(axes: Axes, panel: Panel, policies: list[str]) -> None:
    _plain(axes)
    if panel.bound is not None:
        axes.fill_between(
            panel.bound.xs,
            panel.bound.reached,
            panel.bound.best,
            color="#bbbbbb",
            alpha=0.8,
            linewidth=0,
            label="optimum lies here",
            zorder=2.5,  # above the bands, below the curves
        )
        axes.plot(panel.bound.xs, panel.bound.best, color="#666666", linewidth=1, zorder=2.5)
    if panel.allowed:
        axes.plot(
            panel.allowed,
            panel.allowed,
            color="#666666",
            linewidth=1.2,
            linestyle=LINE_STYLES["dashed"],
            label="allowed",
        )
    for curve in panel.curves:
        _draw_curve(axes, curve, policies)


def _draw_curve(axes: Axes, curve: Curve, policies: list[str]) -> None:
    style = look(curve.policy, policies)
    if curve.drawn == "points":
        axes.errorbar(
            curve.xs,
            curve.mean,
            yerr=_half(curve),
            fmt=style.marker or MARKERS[0],
            color=style.colour,
            markersize=style.mark_size,
            capsize=3,
            label=curve.label,
            zorder=4,
        )
        return
    if not any(math.isnan(value) for value in curve.low):
        axes.fill_between(
            curve.xs, curve.low, curve.high, color=style.colour, alpha=BAND, linewidth=0
        )
    axes.plot(
        curve.xs,
        curve.mean,
        color=style.colour,
        linewidth=style.width,
        linestyle=LINE_STYLES[curve.dash],
        marker="" if curve.drawn == "line" else style.marker,
        markersize=style.mark_size,
        markeredgewidth=0,
        label=curve.label,
        zorder=3,
    )
