"""Reading the log, from any process: heads, lines by byte range, the files that hold a range.

Knows nothing of the writer; trusts only what lies below the durable ends it is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import structlog
from prometheus_client import Counter

from tocsin.errors import Damaged, NotFound
from tocsin.protocol import log_line
from tocsin.storage.log.port import News, gone
from tocsin.storage.log.segments import damage, heads
from tocsin.storage.log.segments.lost import ends_before, read_lost
from tocsin.storage.log.segments.names import segment_first, segment_name

_logger = structlog.get_logger(__name__)

DAMAGED = Counter("tocsin_log_damaged_reads_total", "Reads that met damage in the log", ["dataset"])

_BACKWARDS_BYTES = 4096
_COUNTED_BYTES = 1024 * 1024  # records beyond are taken to be as long as those before


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

    def damage(self, dataset: str, start: int, end: int) -> Damaged:
        """Why [start, end) cannot be read whole, for whoever reads the files by other means."""
        return _damaged(self.directory, dataset, start, end)

    def record_at(self, dataset: str, position: int) -> int:
        return record_at(self.directory, dataset, position)

    def end_of(self, position: int, body: bytes) -> int:
        return _end_of(position, body)

    def ends(self, dataset: str, positions: Sequence[int], end: int) -> list[int]:
        return ends_before(read_lost(self.directory, dataset), positions, end)

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
        news: dict[str, News] = {}
        for count, (dataset, start, end) in enumerate(waiting[shift:] + waiting[:shift]):
            share = max(1, most_bytes // (len(waiting) - count))
            lines = list(_up_to(_whole_lines(self.directory, dataset, start, end), start + share))
            records = [line for line in lines if not log_line.is_filler(line[1])]
            news[dataset] = News(records, _end_of(*lines[-1]))
            most_bytes -= news[dataset].end - start
        return news

    def size_bytes(self, start: int, end: int) -> int:
        return max(0, end - start)

    def span(self, size_bytes: int) -> int:
        return max(1, size_bytes)

    def count(self, dataset: str, start: int, end: int) -> int:
        counted, reached = 0, start
        for position, body in self.lines(dataset, start, end, _COUNTED_BYTES):
            counted, reached = counted + 1, self.end_of(position, body)
        if reached >= end or counted == 0:
            return counted
        return round(counted * (end - start) / (reached - start))

    def pieces(self, dataset: str, start: int, end: int, most_bytes: int) -> list[tuple[int, int]]:
        """Cut at segment boundaries: a piece is read by whole files."""
        if end <= start:
            return []
        cuts = [start]
        for path in segments(self.directory, dataset, start, end)[1:]:
            first = segment_first(path.name)
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
    firsts = sorted(f for name in names if (f := segment_first(name)) is not None)
    return [(first, folder / segment_name(first)) for first in firsts]


def first_position(directory: Path, dataset: str) -> int:
    """The first position that is still kept."""
    known_segments = list_segments(directory, dataset)
    if not known_segments:
        raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
    return known_segments[0][0]


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
    stop = end if max_bytes is None else min(end, start + max_bytes)
    given = False
    for position, body in _whole_lines(directory, dataset, start, end):
        if given and _end_of(position, body) > stop:
            return
        if not log_line.is_filler(body):
            given = True
            yield position, body


def _whole_lines(
    directory: Path, dataset: str, start: int, end: int
) -> Iterator[tuple[int, bytes]]:
    """All lines in [start, end), also those that fill the place of lost records."""
    position = start
    for first, path in _overlapping(directory, dataset, start, end):
        try:
            handle = path.open("rb", buffering=256 * 1024)
        except FileNotFoundError:
            raise gone(dataset, position) from None
        with handle:
            handle.seek(position - first)
            for raw in handle:
                if position >= end:
                    return
                body = log_line.decode(raw, position)
                if body is None:
                    raise _damaged(directory, dataset, position, end)
                yield position, body
                position += len(raw)
    if position < end:
        raise _damaged(directory, dataset, position, end)


def _end_of(position: int, body: bytes) -> int:
    return position + log_line.FRAME_BYTES + len(body)


def _damaged(directory: Path, dataset: str, start: int, end: int) -> Damaged:
    """What keeps [start, end) from being read: also what ends where it begins, since a line that
    lost its newline takes the next one with it for those who read by lines."""
    segments = list_segments(directory, dataset)
    followings = [first for first, _ in segments[1:]] + [None]
    holes = [
        hole
        for (first, path), following in zip(segments, followings, strict=True)
        for hole in damage.holes(path, first, following=following, known_end=end)
        if hole.end >= start and hole.first < end
    ]
    path = _overlapping(directory, dataset, start, end)[0][1]
    error = damage.damaged(dataset, holes or [damage.Hole(path, start, end, 1)])
    DAMAGED.labels(dataset).inc()
    _logger.error("log.damaged", dataset=dataset, reason=error.message, hint=error.hint)
    return error


def _up_to(lines: Iterator[tuple[int, bytes]], stop: int) -> Iterator[tuple[int, bytes]]:
    """Those that end by `stop`; at least the first."""
    yield next(lines)
    yield from takewhile(lambda line: _end_of(*line) <= stop, lines)


def _overlapping(directory: Path, dataset: str, start: int, end: int) -> list[tuple[int, Path]]:
    if start >= end:
        return []
    known_segments = list_segments(directory, dataset)
    if not known_segments:
        raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
    if start < known_segments[0][0]:
        raise gone(dataset, start)
    bounds = [first for first, _ in known_segments[1:]] + [end]
    return [
        (first, path)
        for (first, path), upto in zip(known_segments, bounds, strict=True)
        if first < end and (upto > start)
    ]
