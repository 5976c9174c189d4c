"""The names of segment files: the position of a segment's first record, in twenty digits."""

from __future__ import annotations

import re

_SEGMENT = re.compile(r"([0-9]{20})\.log\Z")


def segment_name(first: int) -> str:
    return f"{first:020d}.log"


def segment_first(name: str) -> int | None:
    """The position a segment starts at; None if the file is not a segment."""
    segment = _SEGMENT.match(name)
    return int(segment[1]) if segment else None
