"""What filters compare: the value of a column as its *key*.

Keys of one kind are totally ordered, and each has a successor. So `<` and `<=`, `=` and `BETWEEN`
are all half-open ranges, and equivalent conditions have equal ranges. The next text after 'a'
is 'a' with a character of code 0.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Literal

Kind = Literal[
    "boolean", "whole", "double", "single", "decimal", "text", "date", "timestamp", "other"
]
"""`single` is a FLOAT, `other` an array, map or struct, of which only NULL can be asked."""

Key = int | float | str
MAX_CODE_POINT = "\U0010ffff"
_SURROGATES = range(0xD800, 0xE000)  # no text that came in as UTF-8 has them


def single(value: float) -> float:
    """Rounded as a FLOAT column keeps it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def unscaled(value: str) -> int:
    """A stored DECIMAL, with all its decimals, as a whole number of units of its last digit."""
    return int(value.replace(".", ""))


CONVERT: dict[Kind, Callable[[Any], Any]] = {"single": single, "decimal": unscaled}
"""How a kept value becomes its key; kinds that are not here are their own keys."""


def next_key(kind: Kind, key: Any) -> Any:
    """The smallest key above; None if there is none."""
    match kind:
        case "double":
            return _finite(math.nextafter(key, math.inf))
        case "single":
            return _finite(_neighbour(key, 1))
        case "text":
            return key + "\0"
        case "date" | "timestamp":
            return _moved(kind, key, 1)
        case _:
            return key + 1


def previous_key(kind: Kind, key: Any) -> Any:
    """The largest key below; None if there is none. Text has none in general: a smaller one."""
    match kind:
        case "double":
            return _finite(math.nextafter(key, -math.inf))
        case "single":
            return _finite(_neighbour(key, -1))
        case "text":
            return "" if key else None
        case "date" | "timestamp":
            return _moved(kind, key, -1)
        case _:
            return key - 1


def count_keys(kind: Kind, low: Any, high: Any) -> float:
    """How many keys there are in [low, high)."""
    match kind:
        case "double":
            return _ordinal(high, "<d", "<q") - _ordinal(low, "<d", "<q")
        case "single":
            return _ordinal(high, "<f", "<i") - _ordinal(low, "<f", "<i")
        case "text":
            more = high[len(low) :]
            only_zeros = high.startswith(low) and not more.strip("\0")
            return len(more) if only_zeros else math.inf
        case "date":
            return (date.fromisoformat(high) - date.fromisoformat(low)).days
        case "timestamp":
            apart = datetime.fromisoformat(high) - datetime.fromisoformat(low)
            return apart // timedelta(microseconds=1)
        case _:
            return int(high - low)


def end_of_prefix(prefix: str) -> str | None:
    """The smallest text above every one that begins so; None if there is none."""
    stem = prefix.rstrip(MAX_CODE_POINT)
    if not stem:
        return None
    after = ord(stem[-1]) + 1
    if after in _SURROGATES:
        after = _SURROGATES.stop
    return stem[:-1] + chr(after)


def timestamp_text(time: datetime) -> str:
    """As TIMESTAMP values are kept: always UTC, always six decimals."""
    return time.isoformat(timespec="microseconds")[:-6] + "Z"


def _moved(kind: Kind, key: str, by: int) -> str | None:
    try:
        if kind == "date":
            return (date.fromisoformat(key) + timedelta(days=by)).isoformat()
        return timestamp_text(datetime.fromisoformat(key) + timedelta(microseconds=by))
    except OverflowError:
        return None


def _finite(key: float) -> float | None:
    return key if math.isfinite(key) else None


def _ordinal(key: float, floating: str, whole: str) -> int:
    """The rank of a floating-point number among all of them; neighbours differ by one."""
    bits = int(struct.unpack(whole, struct.pack(floating, key))[0])
    return bits if bits >= 0 else -(bits & ((1 << (8 * struct.calcsize(whole) - 1)) - 1))


def _neighbour(key: float, by: int) -> float:
    place = _ordinal(key, "<f", "<i") + by
    bits = abs(place)
    size = float(struct.unpack("<f", struct.pack("<i", bits))[0])
    return size if place >= 0 else -size
