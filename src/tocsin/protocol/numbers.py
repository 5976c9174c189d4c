"""Numbers of JSON with all their digits.

A DECIMAL keeps up to 38 digits and a double some 15. JSON makes no difference between them, so
whoever decodes what people wrote, or what they will read, takes a number for a float only where
that is the same number. Must not know which column it is for.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec

_SURE = 15  # so many digits every float keeps

Number = float | Decimal


def exact(text: str) -> Number:
    """A number with a point or an exponent: a float if that loses nothing."""
    number = float(text)
    if len(text) <= _SURE and "e" not in text and "E" not in text:
        return number
    if repr(number) == text or Decimal(repr(number)) == Decimal(text):
        return number
    return Decimal(text)


decode: Callable[[bytes | str], Any] = msgspec.json.Decoder(float_hook=exact).decode
encode = msgspec.json.Encoder(decimal_format="number").encode


def decode_as(text: bytes, kind: Any) -> Any:
    """As that type; what it leaves open keeps its digits."""
    return _decoder(kind)(text)


@cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind, float_hook=exact).decode


def shown(value: Any) -> str:
    """On one line, as people read it."""
    return msgspec.json.format(encode(value), indent=0).decode()
