"""Names of columns, parameters and fields: kept with the capitals they were declared with, and
matched without regard to case. Names of datasets, channels and brokers are folded to lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def by_lower(names: Iterable[str]) -> dict[str, str]:
    """Each declared name under its lower-case form."""
    return {name.lower(): name for name in names}


def fields_by_declared(given: Mapping[str, Any], declared: Mapping[str, str]) -> dict[str, Any]:
    """`given` under the names of `declared` (see `by_lower`); what is not declared keeps its own.

    A field that is written exactly as declared comes before others that differ by case alone; two
    of which neither is written so are a ValueError.
    """
    exact = {name for name in given if declared.get(name.lower()) == name}
    renamed: dict[str, str] = {}
    for name in given:
        target = declared.get(name.lower(), name)
        if target in exact or target == name:
            continue
        if target in renamed.values():
            first = next(other for other, known in renamed.items() if known == target)
            raise ValueError(f"{first!r} and {name!r} both stand for {target!r}")
        renamed[name] = target
    return {renamed.get(name, name): value for name, value in given.items()}
