"""The values that a column can have, as the keys that filters compare."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from tocsin.model import Column
from tocsin.overlay.filters import Constraint
from tocsin.overlay.filters.keys import CONVERT, Kind, next_key
from tocsin.overlay.filters.ranges import EVERYTHING, Ranges, complement, intersection, united
from tocsin.sql.types import SqlType, parse_type

_KINDS: dict[str, Kind] = {
    "BOOLEAN": "boolean",
    "INT": "whole",
    "BIGINT": "whole",
    "DOUBLE": "double",
    "FLOAT": "single",
    "DECIMAL": "decimal",
    "STRING": "text",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
_LARGEST_FLOAT = 3.4028234663852886e38
_ENDS: dict[str, tuple[Any, Any]] = {
    "BOOLEAN": (0, 1),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "DOUBLE": (-sys.float_info.max, sys.float_info.max),
    "FLOAT": (-_LARGEST_FLOAT, _LARGEST_FLOAT),
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIMESTAMP": ("0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"),
}


class Domain(Struct, frozen=True):
    """Of one column. Ranges that reach its ends have no ends, so that `>=` the smallest value asks
    for nothing but a value."""

    column: str
    type: str
    kind: Kind
    scale: int
    low: Any
    high: Any  # None: there is no largest

    def constraint(self, **conditions: Any) -> Constraint:
        return Constraint(column=self.column, kind=self.kind, scale=self.scale, **conditions)

    def key(self, value: Any) -> Any:
        """Of a value in its type's canonical form."""
        convert = CONVERT.get(self.kind)
        key = value if convert is None else convert(value)
        return int(key) if isinstance(key, bool) else key + 0.0 if isinstance(key, float) else key

    def between(self, low: Any, high: Any) -> Ranges:
        """Both ends included; None is without end."""
        return self._clipped(((low, None if high is None else next_key(self.kind, high)),))

    def below(self, high: Any) -> Ranges:
        return self._clipped(((None, high),))

    def above(self, low: Any) -> Ranges:
        return self._clipped(complement(((None, next_key(self.kind, low)),)))

    def among(self, keys: Iterable[Any]) -> Ranges:
        return self._clipped(united((key, next_key(self.kind, key)) for key in keys))

    def except_(self, key: Any) -> Ranges:
        return self._clipped(complement(((key, next_key(self.kind, key)),)))

    def _clipped(self, ranges: Ranges) -> Ranges:
        low = self.low
        high = None if self.high is None else next_key(self.kind, self.high)
        whole = ((low, high),)
        clipped = intersection(united(ranges), whole)
        if clipped == whole:
            return EVERYTHING
        if self.kind in ("boolean", "text"):  # FALSE and '' are values like others, to be looked up
            return clipped
        return tuple(
            (None if begin == low else begin, None if end == high else end)
            for begin, end in clipped
        )


def domain_of(column: Column) -> Domain:
    declared: SqlType = parse_type(column.type)
    kind = _KINDS.get(declared.kind, "other")
    low, high = _ENDS.get(declared.kind, ("", None))
    if kind == "decimal":
        high = 10**declared.precision - 1
        low = -high
    return Domain(column.name, column.type, kind, declared.scale, low, high)
