"""Parameter sets in columns: a million of them take tens of bytes each, not a dict each.

Those that are settled lie in one Arrow table by the number of their backend subscription; what came
and went since lies beside it until it is settled too. Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.model import Arguments, Parameter
from tocsin.protocol import columns

ARROW = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
}
"""Types whose canonical JSON value is the value; the others are text that Spark casts."""

CHUNK_ROWS = 50_000  # so many sets at most are Python objects while many come at once


def columns_of(
    parameters: Iterable[Parameter], backends: Sequence[int], sets: Sequence[Arguments]
) -> pa.Table:
    """Arguments beside BACKEND, in Arrow's types, or as text."""
    arrays = {columns.BACKEND: pa.array(backends, pa.int64())}
    for parameter in parameters:
        kind = ARROW.get(parameter.type)
        values = [arguments[parameter.name] for arguments in sets]
        if kind is None:
            values = [str(value) for value in values]
        arrays[columns.parameter_column(parameter.name)] = pa.array(values, kind or pa.string())
    return pa.table(arrays)


class ArgumentColumns:
    """Of sets that all give the same parameters. `version` grows with each change, and
    `settled_at` is that of the last settlement."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = tuple(parameters)
        self.table: pa.Table = columns_of(self._parameters, (), ())  # the settled ones
        self._numbers: Any = np.empty(0, np.int64)  # of these, in order
        self._removed: set[int] = set()  # of these
        self._added: dict[int, Arguments] = {}
        self._chunks: list[pa.Table] = []  # added ones that are columns already
        self._chunked: set[int] = set()
        self.version = self.settled_at = 0

    def __len__(self) -> int:
        return self.settled - len(self._removed) + self.came

    def __contains__(self, backend: int) -> bool:
        if backend in self._added or backend in self._chunked:
            return True
        return self._is_settled(backend) and backend not in self._removed

    @property
    def settled(self) -> int:
        return len(self._numbers)

    @property
    def came(self) -> int:
        """How many came since the settlement."""
        return len(self._added) + len(self._chunked)

    @property
    def changes(self) -> int:
        return len(self._removed) + self.came

    def add(self, backend: int, arguments: Arguments) -> None:
        if backend in self:
            return
        self.version += 1
        self._added[backend] = arguments
        if len(self._added) >= CHUNK_ROWS:
            self._chunks.append(self._columns(self._added))
            self._chunked.update(self._added)
            self._added = {}

    def remove(self, backends: Iterable[int]) -> None:
        for backend in backends:
            if backend not in self:
                continue
            self.version += 1
            if backend in self._chunked:
                self.settle()
            if self._added.pop(backend, None) is None:
                self._removed.add(backend)

    def added(self) -> pa.Table:
        """Those that came since the settlement."""
        return pa.concat_tables([*self._chunks, self._columns(self._added)])

    def removed(self) -> list[int]:
        """The settled ones that are gone."""
        return sorted(self._removed)

    def settle(self) -> None:
        """From now on all that are here are settled."""
        if not self.changes:
            return
        kept = self.table
        if self._removed:
            gone = np.isin(self._numbers, np.fromiter(self._removed, np.int64))
            kept = kept.filter(pa.array(~gone))
        table = pa.concat_tables([kept, self.added()])
        self._removed, self._added, self._chunks, self._chunked = set(), {}, [], set()
        if not _is_sorted(table):
            table = table.sort_by(columns.BACKEND)
        self.table = table.combine_chunks()
        self._numbers = self.table[columns.BACKEND].to_numpy()
        self.settled_at = self.version

    def _columns(self, sets: dict[int, Arguments]) -> pa.Table:
        return columns_of(self._parameters, list(sets), list(sets.values()))

    def _is_settled(self, backend: int) -> bool:
        place = int(np.searchsorted(self._numbers, backend))
        return place < len(self._numbers) and bool(self._numbers[place] == backend)


def _is_sorted(table: pa.Table) -> bool:
    numbers = table[columns.BACKEND].to_numpy()
    return bool(np.all(numbers[:-1] < numbers[1:]))
