"""The frame that every picture made with matplotlib has around its curves."""

from __future__ import annotations

from matplotlib.axes import Axes

from tocsin.lab.reports.looks import GRID


def frame(axes: Axes) -> None:
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
