"""Where a new subscription begins, as an application says it."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from tocsin.errors import InvalidInput
from tocsin.model import Beginning


class Last(Struct, frozen=True):
    """Begin with the last so many results."""

    count: int


From = float | timedelta | Last | Beginning
"""Begin with what came within so many seconds, or within this time; or with the last results."""


def beginning_of(given: From | None) -> Beginning | None:
    match given:
        case None | Beginning():
            return given
        case Last(count):
            return Beginning(last=count)
        case timedelta():
            return Beginning(seconds=given.total_seconds())
        case int() | float() if not isinstance(given, bool):
            return Beginning(seconds=float(given))
    raise InvalidInput(
        f"a subscription cannot begin from {given!r}",
        field="from",
        hint="from_=600 (seconds), from_=timedelta(minutes=10) or from_=Last(100)",
    )
