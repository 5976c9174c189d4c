"""Curves in a terminal: a mark in each column, the first curve on top of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text

WIDTH, HEIGHT = 64, 12
MARKS = ("●", "·", "+")
STYLES = ("bold", "cyan", "magenta")


def chart(
    curves: dict[str, tuple[Sequence[float], Sequence[float]]], unit: str, top: float = 1.0
) -> Text:
    """Each curve's x and y values; y from 0 to `top`, x from 0 to the largest."""
    end = max(max(xs) for xs, _ in curves.values()) or 1.0
    columns = np.linspace(0.0, end, WIDTH)
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * WIDTH for _ in range(HEIGHT + 1)]
    for place, (xs, ys) in reversed(list(enumerate(curves.values()))):
        for column, y in enumerate(np.interp(columns, xs, ys)):
            row = HEIGHT - round(float(min(max(y / top, 0.0), 1.0)) * HEIGHT)
            grid[row][column] = (MARKS[place], STYLES[place])
    text = Text()
    for row, cells in enumerate(grid):
        level = top * (1 - row / HEIGHT)
        text.append(f"{level:5.0%} ┤" if row % 3 == 0 else "      │")
        for mark, style in cells:
            text.append(mark, style)
        text.append("\n")
    text.append(f"      └{'─' * WIDTH}\n")
    middle = f"{end / 2:,.4g}"
    text.append(f"       0{middle:^{WIDTH - 2}}{end:,.4g} {unit}\n")
    for place, name in enumerate(curves):
        text.append(f"       {MARKS[place]} {name}\n", STYLES[place])
    return text
