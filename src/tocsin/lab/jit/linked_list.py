"""Lists with links both ways, for kernels: to the top, to the bottom and out are all O(1).

`cells` are records with `above` and `below`, places of other cells; `ends` is a record with `top`
and `bottom`. NONE stands where there is no cell.
"""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import fused

NONE = -1


@fused
def unlink(cells: Any, ends: Any, cell: int) -> None:
    above, below = cells[cell].above, cells[cell].below
    if above == NONE:
        ends.top = below
    else:
        cells[above].below = below
    if below == NONE:
        ends.bottom = above
    else:
        cells[below].above = above


@fused
def link_top(cells: Any, ends: Any, cell: int) -> None:
    first = ends.top
    cells[cell].above, cells[cell].below = NONE, first
    if first == NONE:
        ends.bottom = cell
    else:
        cells[first].above = cell
    ends.top = cell


@fused
def link_bottom(cells: Any, ends: Any, cell: int) -> None:
    last = ends.bottom
    cells[cell].above, cells[cell].below = last, NONE
    if last == NONE:
        ends.top = cell
    else:
        cells[last].below = cell
    ends.bottom = cell


@fused
def move_to_top(cells: Any, ends: Any, cell: int) -> None:
    if ends.top != cell:
        unlink(cells, ends, cell)
        link_top(cells, ends, cell)


@fused
def move_to_bottom(cells: Any, ends: Any, cell: int) -> None:
    if ends.bottom != cell:
        unlink(cells, ends, cell)
        link_bottom(cells, ends, cell)
