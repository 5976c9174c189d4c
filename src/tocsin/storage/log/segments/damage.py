"""Damage in a segment: bytes that are not the line that was written there.

A crash tears the end of the last segment: bytes that no fsync covered, and that were never
acknowledged. They are cut when the log is opened. Anything else is damage, and known by one of
- a whole line behind a hole: lines are made durable in order, commit by commit, so that what lies
  before a later commit was acknowledged;
- a hole below an end that `heads` has shown: it is written after the fsync, never before;
- a hole in a segment that is not the last: it was synced before the next one began.
One case cannot be distinguished. A power cut in the middle of an fsync may lose a page of that
commit and keep a later one. That looks like damage, although these records were not acknowledged.
It is treated as damage: the start is refused, and a repair keeps every whole line, acknowledged or
not. The other way round would be to cut, silently, what was acknowledged.
The one thing that nothing here can see is the loss of the very last records together with the
`heads` that listed them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import Damaged
from tocsin.protocol import log_line


class Hole(NamedTuple):
    """The records in [first, end) cannot be read. None are lost if it is empty: the file is too
    long then, and its end means nothing."""

    path: Path
    first: int
    end: int
    records: int  # about so many


def walk(data: bytes | mmap.mmap, first: int) -> Iterator[tuple[int, bytes | None, int]]:
    """Position, JSON and end of every whole line, in order; None for the JSON of a hole between."""
    at, hole = 0, None
    while at < len(data):
        newline = data.find(b"\n", at)
        stop = len(data) if newline < 0 else newline + 1
        raw = data[at:stop]
        body = log_line.decode(raw, first + at)
        if body is None:
            hole = at if hole is None else hole
            at += _line_within(raw, first + at)
            continue
        if hole is not None:
            yield first + hole, None, first + at
            hole = None
        yield first + at, body, first + stop
        at = stop
    if hole is not None:
        yield first + hole, None, first + len(data)


def holes(
    path: Path, first: int, *, following: int | None = None, known_end: int = 0
) -> list[Hole]:
    """What is damaged in a segment. `following` is where the next one begins, `known_end` an end of
    the dataset that was durable once."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return _judged(path, b"", first, following, known_end)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _judged(path, data, first, following, known_end)


def damaged(dataset: str, holes: list[Hole]) -> Damaged:
    """The error that names the place and the repair."""
    first = holes[0]
    if first.end > first.first:
        records = "1 record" if first.records == 1 else f"{first.records} records"
        what = f"about {records} in [{first.first}, {first.end}) cannot be read"
    else:
        what = f"it goes on behind position {first.end}, where the next segment begins"
    more = f", and {len(holes) - 1} more places are damaged" if len(holes) > 1 else ""
    return Damaged(
        f"the log of dataset {dataset} is damaged: {what}, file {first.path}{more}",
        field=dataset,
        hint="stop the cluster; tocsin repair shows what is lost, and keeps all the rest",
    )


def _judged(
    path: Path, data: bytes | mmap.mmap, first: int, following: int | None, known_end: int
) -> list[Hole]:
    kept = data if following is None else data[: following - first]
    pieces = [(begin, body is not None, end) for begin, body, end in walk(kept, first)]
    whole = [end - begin for begin, is_line, end in pieces if is_line]
    mean = sum(whole) / max(1, len(whole))

    def hole(begin: int, end: int) -> Hole:
        lines = data[begin - first : end - first].count(b"\n")
        return Hole(path, begin, end, max(1, lines, round((end - begin) / mean) if mean else 1))

    damage = [hole(begin, end) for begin, is_line, end in pieces[:-1] if not is_line]
    tail_begin = first
    if pieces:
        begin, is_line, end = pieces[-1]
        tail_begin = end if is_line else begin
    wanted = known_end if following is None else following
    if tail_begin < wanted:
        damage.append(hole(tail_begin, wanted))
    if following is not None and first + len(data) > following:
        damage.append(Hole(path, following, following, 0))
    return damage


def _line_within(raw: bytes, position: int) -> int:
    """Where a whole line begins in what is none: a newline may be what was damaged. Else its
    length."""
    for candidate in log_line.BODY_PATTERN.finditer(raw):
        at = candidate.start() - log_line.PREFIX_BYTES
        if (
            at > 0
            and int(candidate[1]) == position + at
            and log_line.decode(raw[at:], position + at)
        ):
            return at
    return len(raw)
