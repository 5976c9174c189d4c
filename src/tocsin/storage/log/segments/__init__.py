"""Segment files: append-only text per dataset, positions are byte offsets. The embedded default."""

from tocsin.storage.log.segments.medium import Segments
from tocsin.storage.log.segments.reader import (
    SegmentReader,
    first_position,
    read_heads,
    read_lines,
    segments,
)

__all__ = [
    "SegmentReader",
    "Segments",
    "first_position",
    "read_heads",
    "read_lines",
    "segments",
]
