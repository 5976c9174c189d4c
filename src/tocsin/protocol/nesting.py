"""How deep a JSON text nests, looked at before anything is decoded.

Decoders, checks and encoders are recursive: a text that nests too deep would end in the middle of
one of them. Whoever takes JSON from outside asks here first, and refuses with a clear error.
"""

from __future__ import annotations

import re

MOST_DEPTH = 64
WRAPPED_DEPTH = MOST_DEPTH + 8
"""A frame or message that carries records is around them."""

_QUOTED = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_FOLDED = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(code for code in range(256) if code not in b"[]{}")
_STEP = {ord("["): 1, ord("]"): -1}
_PIECE = 16 * 1024  # so many brackets are walked in one go


def too_deep(text: bytes, most: int = MOST_DEPTH) -> bool:
    """Whether arrays and objects lie deeper in each other than `most`. Nearly every text has fewer
    brackets than that, which is known in no time."""
    if text.count(b"[") + text.count(b"{") <= most:
        return False
    brackets = _QUOTED.sub(b"", text).translate(_FOLDED, _OTHERS)
    if brackets.count(b"[") <= most:
        return False
    depth = 0
    for start in range(0, len(brackets), _PIECE):
        for bracket in brackets[start : start + _PIECE]:
            depth += _STEP[bracket]
            if depth > most:
                return True
    return False
