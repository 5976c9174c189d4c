"""Where a new subscription begins, as text and as data: read and checked. Knows no SQL."""

from __future__ import annotations

import math

from tocsin.durations import parse_duration_s
from tocsin.errors import InvalidInput
from tocsin.model import Beginning

MOST = 10_000
FARTHEST_S = 100 * 365 * 86_400.0
HINT = "such as '10 minutes', or LAST 100"


def parse_beginning(text: str) -> Beginning:
    """From a text of its own: `10 minutes`, `last 100`."""
    words = text.split()
    if len(words) == 2 and words[0].lower() == "last" and words[1].isdigit():
        return checked(Beginning(last=int(words[1])))
    try:
        return checked(Beginning(seconds=parse_duration_s(text.replace("'", ""))))
    except InvalidInput as error:
        raise InvalidInput(error.message, field="from", hint="10 minutes, or last 100") from None


def checked(given: Beginning) -> Beginning:
    """The same, if it makes sense."""
    if (given.seconds is None) == (given.last is None):
        raise InvalidInput(
            "a subscription begins with so many seconds or with so many results",
            field="from",
            hint='{"seconds": 600} or {"last": 100}',
        )
    if given.last is not None and not 1 <= given.last <= MOST:
        raise InvalidInput(f"{given.last} is not 1 to {MOST} results", field="from", hint=HINT)
    if given.seconds is not None and not (
        math.isfinite(given.seconds) and 0 < given.seconds <= FARTHEST_S
    ):
        raise InvalidInput(
            f"{given.seconds:g} s is not a time to look back", field="from", hint=HINT
        )
    return given
