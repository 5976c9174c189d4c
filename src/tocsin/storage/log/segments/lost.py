"""The file `lost` of a dataset: which records a repair has given up, and whether subscribers were
notified. It is written before their place is filled, and outlives the segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tocsin import durable

NAME = "lost"


class Lost(msgspec.Struct, frozen=True):
    """The records in [first, end) are given up."""

    first: int
    end: int
    records: int  # about so many
    at: float
    reported: bool = msgspec.field(name="told", default=False)  # subscribers were notified


def read_lost(directory: Path, dataset: str) -> list[Lost]:
    """In order of position."""
    try:
        return msgspec.json.decode((directory / dataset / NAME).read_bytes(), type=list[Lost])
    except FileNotFoundError:
        return []


def write_lost(directory: Path, dataset: str, lost: Sequence[Lost]) -> None:
    body = msgspec.json.encode(sorted(lost, key=lambda loss: loss.first))
    durable.write(directory / dataset / NAME, body)


def ends_before(lost: Sequence[Lost], positions: Sequence[int], end: int) -> list[int]:
    """Where records end, by where they begin: at the next one, or where lost ones began."""
    following = [*positions[1:], end] if positions else []
    if not lost:
        return following
    firsts = [loss.first for loss in lost]
    ends = []
    for position, next_position in zip(positions, following, strict=True):
        at = bisect_right(firsts, position)
        ends.append(min(next_position, firsts[at]) if at < len(firsts) else next_position)
    return ends
