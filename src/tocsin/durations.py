"""Durations as people write them in words: `10 minutes`, `1 hour 30 minutes`. Knows no SQL."""

from __future__ import annotations

import re

from tocsin.errors import InvalidInput

UNIT_NAMES = "MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS"
_UNITS_S = {
    "MILLISECOND": 0.001,
    "SECOND": 1.0,
    "MINUTE": 60.0,
    "HOUR": 3600.0,
    "DAY": 86400.0,
    "WEEK": 604800.0,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def unit_s(word: str) -> float:
    """How long a MINUTE is, or MINUTES, in any case."""
    unit = word.upper()
    seconds = _UNITS_S.get(unit) or _UNITS_S.get(unit.removesuffix("S"))
    if seconds is None:
        raise InvalidInput(f"expected a unit of time, found {word!r}", hint=UNIT_NAMES)
    return seconds


def parse_duration_s(text: str) -> float:
    """The sum of all parts; InvalidInput for what is no duration, and for none."""
    text = text.strip()
    total_s, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise InvalidInput(f"cannot read the interval {text!r}", hint=UNIT_NAMES)
        total_s += float(part.group(1)) * unit_s(part.group(2))
        at = part.end()
    if total_s <= 0:
        raise InvalidInput("an interval must be longer than nothing")
    return total_s
