"""Reading the log, from any process: heads, lines by byte range, the files that hold a range.

Knows nothing of the writer; trusts only what lies below the durable ends it is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tocsin.errors import NotFound
from tocsin.storage.log.port import News, gone
from tocsin.storage.log.segments import heads, line

_BACKWARDS_BYTES = 4096


class SegmentReader:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._turn = 0

    @property
    def address(self) -> str:
        return str(self.directory)

    def first_position(self, dataset: str) -> int:
        return first_position(self.directory, dataset)

    def lines(
        self, dataset: str, start: int, end: int, max_bytes: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        return read_lines(self.directory, dataset, start, end, max_bytes)

    def record_at(self, dataset: str, position: int) -> int:
        return record_at(self.directory, dataset, position)

    def end_of(self, position: int, body: bytes) -> int:
        return position + line.FRAME_BYTES + len(body)

    def ends(self, positions: Sequence[int], end: int) -> list[int]:
        return [*positions[1:], end] if positions else []

    def news(self, starts: Mapping[str, int], most_bytes: int) -> dict[str, News]:
        """Each dataset gets its share, the first by turns."""
        ends = read_heads(self.directory)
        waiting: list[tuple[str, int, int]] = []
        for dataset, start in starts.items():
            end = ends.get(dataset, start)
            if end < start:
                raise RuntimeError(f"the log of {dataset} ends at {end}, before what was read")
            if end > start:
                waiting.append((dataset, start, end))
        self._turn += 1
        shift = self._turn % max(1, len(waiting))
        found: dict[str, News] = {}
        for count, (dataset, start, end) in enumerate(waiting[shift:] + waiting[:shift]):
            share = max(1, most_bytes // (len(waiting) - count))
            lines = list(self.lines(dataset, start, end, share))
            last, body = lines[-1]
            found[dataset] = News(lines, self.end_of(last, body))
            most_bytes -= found[dataset].end - start
        return found

    def size_bytes(self, start: int, end: int) -> int:
        return max(0, end - start)

    def pieces(self, dataset: str, start: int, end: int, most_bytes: int) -> list[tuple[int, int]]:
        """Cut at segment boundaries: a piece is read by whole files."""
        if end <= start:
            return []
        cuts = [start]
        for path in segments(self.directory, dataset, start, end)[1:]:
            first = line.segment_first(path.name)
            assert first is not None
            if first - cuts[-1] >= most_bytes:
                cuts.append(first)
        return list(zip(cuts, [*cuts[1:], end], strict=True))

    def close(self) -> None:
        pass


def read_heads(directory: Path) -> dict[str, int]:
    """The durable end of every open dataset."""
    return heads.read(directory).ends


def list_segments(directory: Path, dataset: str) -> list[tuple[int, Path]]:
    """First position and path of every segment, in order; empty if there is no such dataset."""
    folder = directory / dataset
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    firsts = sorted(f for name in names if (f := line.segment_first(name)) is not None)
    return [(first, folder / line.segment_name(first)) for first in firsts]


def first_position(directory: Path, dataset: str) -> int:
    """The first position that is still kept."""
    found = list_segments(directory, dataset)
    if not found:
        raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
    return found[0][0]


def record_at(directory: Path, dataset: str, position: int) -> int:
    """As `Reader.record_at`. No JSON has a newline in it, so that one before it ends a line."""
    first, path = _overlapping(directory, dataset, position, position + 1)[0]
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise gone(dataset, position) from None
    with handle:
        at = position - first
        while at > 0:
            begin = max(0, at - _BACKWARDS_BYTES)
            handle.seek(begin)
            newline = handle.read(at - begin).rfind(b"\n")
            if newline >= 0:
                return first + begin + newline + 1
            at = begin
    return first


def segments(directory: Path, dataset: str, start: int, end: int) -> list[Path]:
    """The files that hold the records in [start, end), in order."""
    return [path for _, path in _overlapping(directory, dataset, start, end)]


def read_lines(
    directory: Path, dataset: str, start: int, end: int, max_bytes: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """As `Reader.lines`."""
    position = start
    stop = end if max_bytes is None else min(end, start + max_bytes)
    for first, path in _overlapping(directory, dataset, start, end):
        try:
            handle = path.open("rb", buffering=256 * 1024)
        except FileNotFoundError:
            raise gone(dataset, position) from None
        with handle:
            handle.seek(position - first)
            for raw in handle:
                if position >= end or (position + len(raw) > stop and position > start):
                    return
                body = line.decode(raw, position)
                if body is None:
                    raise RuntimeError(f"{path} is damaged at position {position} of {dataset}")
                yield position, body
                position += len(raw)
    if position < end:
        raise RuntimeError(f"the log of {dataset} ends at {position}, before {end}")


def _overlapping(directory: Path, dataset: str, start: int, end: int) -> list[tuple[int, Path]]:
    if start >= end:
        return []
    found = list_segments(directory, dataset)
    if not found:
        raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
    if start < found[0][0]:
        raise gone(dataset, start)
    bounds = [first for first, _ in found[1:]] + [end]
    return [
        (first, path)
        for (first, path), upto in zip(found, bounds, strict=True)
        if first < end and (upto > start)
    ]
