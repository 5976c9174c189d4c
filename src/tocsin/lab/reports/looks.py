"""How each policy looks in every figure: colours that colour-blind readers can tell apart (Paul
Tol's muted scheme), and a mark of its own for those who print in grey."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from tocsin.lab.reports.curves import REFERENCE

COLOURS = (
    "#332288",  # indigo
    "#117733",  # green
    "#44AA99",  # teal
    "#88CCEE",  # cyan
    "#999933",  # olive
    "#CC6677",  # rose
    "#DDCC77",  # sand
    "#AA4499",  # purple
    "#882255",  # wine
)
GRID = "#e6e6e6"
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">")
PLOTLY_MARKERS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "v": "triangle-down",
    "D": "diamond",
    "P": "cross",
    "X": "x",
    "<": "triangle-left",
    ">": "triangle-right",
    "*": "star",
    "": "circle",
}
LINE_STYLES = {"solid": "-", "dashed": (0, (5, 3)), "dotted": (0, (1.2, 1.8))}
PLOTLY_DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot"}
ROW = 3  # panels side by side
BAND = 0.12  # opacity of confidence bands
OURS = ("return-rate", "learned-demand")  # stand out: they are what the others are compared with


def rows_and_columns(panels: int) -> tuple[int, int]:
    columns = 2 if panels == 4 else min(panels, ROW)
    return math.ceil(panels / columns), columns


class Look(Struct, frozen=True):
    colour: str
    marker: str
    width: float = 1.8
    mark_size: float = 6.5


def look(policy: str, policies: Sequence[str]) -> Look:
    """By the policy's place in the list; ours is black, a curve of no policy grey."""
    if policy == REFERENCE:
        return Look("#666666", "", 2.0)
    if policy in OURS:
        return Look("#000000", "*", 2.4, 10.0)
    others = [name for name in policies if name not in OURS]
    place = others.index(policy)
    # After nine colours they come again, each with another mark.
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    return Look(COLOURS[place % len(COLOURS)], marker)
