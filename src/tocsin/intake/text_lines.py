"""Lines of a large text, one after the other, as `splitlines` would make them all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = re.compile(rb"[\r\n]*+")
_AT_ONCE = 1024 * 1024  # so many ends of blank lines are passed over in one go


def text_lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line that is not empty, and its number from 1."""
    number, at, feed = 1, 0, -1
    while at < len(body):
        if body[at] in b"\r\n":
            at, passed = _blank(body, at)
            number += passed
            continue
        if at >= feed:
            feed = body.find(b"\n", at)
            feed = len(body) if feed < 0 else feed
        end = body.find(b"\r", at, feed)
        end = feed if end < 0 else end
        yield number, body[at:end]
        number += 1
        at = end + (2 if body[end : end + 2] == b"\r\n" else 1)


def _blank(body: bytes, at: int) -> tuple[int, int]:
    """Behind a run of line ends, and how many there were."""
    match = _BLANK.match(body, at, at + _AT_ONCE)
    assert match is not None
    end = match.end()
    if end < len(body) and body[end - 1 : end + 1] == b"\r\n":
        end -= 1
        if end == at:  # it is one line end
            return at + 2, 1
    run = body[at:end]
    return end, run.count(b"\n") + run.count(b"\r") - run.count(b"\r\n")
