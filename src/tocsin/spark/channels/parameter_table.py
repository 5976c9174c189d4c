"""A channel's parameter sets as Spark tables kept in memory, refreshed by what changed.

Holds every set's canonical arguments on the driver as text, so that the tables can be built again
without asking anyone. Thread-safe; the frames it gave out stay usable until the next refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Arguments
from tocsin.protocol import columns
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.openings import Mask, mask_of
from tocsin.spark.channels.parameters import (
    Parameters,
    PartParameters,
    add_keys,
    finish_facts,
    gather_facts,
    joined_facts,
    parameter_frame,
    prepare,
)
from tocsin.spark.channels.parts import Part
from tocsin.spark.local import SMALL_ROWS, localised

REBUILD_FRACTION = 0.1
REBUILD_ROWS = 1000
"""Changes beyond the larger of these since the last full build lead to another one."""

_encode = msgspec.json.Encoder().encode

_Sets = dict[int, str]
"""Canonical arguments as JSON text, by backend subscription."""


class ParameterTable:
    """One channel's parameter sets. `version` is -1 until the first `replace`."""

    def __init__(
        self, spark: SparkSession, compiled: CompiledChannel, *, small_rows: int = SMALL_ROWS
    ) -> None:
        self._spark = spark
        self._compiled = compiled
        self._small_rows = small_rows
        self._lock = threading.Lock()
        self._tables: dict[Mask, list[tuple[Part, _PartTable]]] = {}
        self.version = -1

    def replace(self, version: int, sets: Iterable[tuple[int, Arguments]]) -> None:
        """Begin anew with all the channel's parameter sets."""
        with self._lock:
            self._tables = {}
            self._add(sets)
            self.version = version

    def update(
        self, version: int, added: Iterable[tuple[int, Arguments]], removed: Iterable[int]
    ) -> None:
        """What came and went since `version`; what is known already does no harm."""
        with self._lock:
            gone = list(removed)
            for pairs in self._tables.values():
                for table in _distinct(pairs):
                    table.remove(gone)
            self._add(added)
            self._tables = {mask: pairs for mask, pairs in self._tables.items() if pairs[0][1].sets}
            self.version = version

    def current(self) -> Parameters | None:
        """The tables as of the last change; None when there is no parameter set."""
        with self._lock:
            by_mask = {
                mask: tuple(PartParameters(part, *table.current()) for part, table in pairs)
                for mask, pairs in self._tables.items()
            }
            return Parameters(by_mask) if by_mask else None

    def holds(self, backend: int) -> bool:
        """Whether its parameter set is among them, as of the last change."""
        with self._lock:
            return any(backend in pairs[0][1].sets for pairs in self._tables.values())

    def masks(self) -> list[Mask]:
        """What parameter sets leave open, as of the last change."""
        with self._lock:
            return list(self._tables)

    def close(self) -> None:
        with self._lock:
            self._tables = {}

    def _add(self, sets: Iterable[tuple[int, Arguments]]) -> None:
        by_mask: dict[Mask, _Sets] = {}
        for backend, arguments in sets:
            by_mask.setdefault(mask_of(arguments), {})[backend] = _encode(arguments).decode()
        for mask, added in by_mask.items():
            if mask not in self._tables:
                self._tables[mask] = self._make_tables(mask)
            for table in _distinct(self._tables[mask]):
                table.add(added)

    def _make_tables(self, mask: Mask) -> list[tuple[Part, _PartTable]]:
        """Parts with the same keys share a table."""
        tables: dict[object, _PartTable] = {}
        pairs: list[tuple[Part, _PartTable]] = []
        for part in self._compiled.parts_with(mask):
            alike = (part.keys, part.facts)
            if alike not in tables:
                tables[alike] = _PartTable(self._spark, part, self._small_rows)
            pairs.append((part, tables[alike]))
        return pairs


def _distinct(pairs: list[tuple[Part, _PartTable]]) -> Iterable[_PartTable]:
    return dict.fromkeys(table for _, table in pairs)


class _PartTable:
    """The table of parameter sets that one part joins, or several with the same keys."""

    def __init__(self, spark: SparkSession, part: Part, small_rows: int) -> None:
        self._spark = spark
        self._part = part
        self._small_rows = small_rows
        self.sets: _Sets = {}
        self._base: DataFrame | None = None
        self._base_ids: set[int] = set()
        self._facts: dict[str, Any] = {}
        self._added: _Sets = {}
        self._removed: set[int] = set()
        self._current: tuple[DataFrame, dict[str, Any]] | None = None

    def add(self, sets: _Sets) -> None:
        for backend, text in sets.items():
            if backend not in self.sets:
                self.sets[backend] = self._added[backend] = text
                self._current = None

    def remove(self, backends: Iterable[int]) -> None:
        for backend in backends:
            if self.sets.pop(backend, None) is not None:
                self._current = None
                self._added.pop(backend, None)
                if backend in self._base_ids:
                    self._removed.add(backend)

    def current(self) -> tuple[DataFrame, dict[str, Any]]:
        """The frame to join with, and its facts."""
        if self._current is None and len(self.sets) <= self._small_rows:
            self._current = self._small()
        if self._current is None:
            changes = len(self._added) + len(self._removed)
            if self._base is None or changes > max(
                REBUILD_ROWS, REBUILD_FRACTION * len(self._base_ids)
            ):
                self._rebuild()
            self._current = self._combined()
        return self._current

    def _forget_base(self) -> None:
        self._base, self._base_ids = None, set()
        self._added, self._removed = {}, set()

    def _frame(self, sets: _Sets) -> DataFrame:
        return parameter_frame(self._spark, self._part.parameters, sets.items())

    def _small(self) -> tuple[DataFrame, dict[str, Any]]:
        """Few sets are made anew at each change and kept on the driver."""
        self._forget_base()
        _, frame, facts = prepare(self._part, self._frame(self.sets))
        # Without keys it is on the driver already, but for casts that Spark's optimiser folds.
        return frame if self._part.keys is None else localised(frame), facts

    def _rebuild(self) -> None:
        self._forget_base()
        raw = self._frame(self.sets)
        raw = raw.repartition(self._spark.sparkContext.defaultParallelism)
        self._facts = gather_facts(self._part, raw)
        # A checkpoint, not a cache: Spark looks caches up by plan, and a view of one is another
        # plan, so each run would parse every parameter set again.
        self._base = add_keys(self._part, raw, finish_facts(self._facts)).localCheckpoint()
        self._base_ids = set(self.sets)

    def _combined(self) -> tuple[DataFrame, dict[str, Any]]:
        assert self._base is not None
        frame = self._base
        if self._removed:
            gone = self._spark.createDataFrame(pa.table({columns.BACKEND: sorted(self._removed)}))
            frame = frame.join(F.broadcast(gone), on=columns.BACKEND, how="left_anti").select(
                *frame.columns
            )
        gathered = self._facts
        if self._added:
            raw = self._frame(self._added)
            gathered = joined_facts(gathered, gather_facts(self._part, raw))
            frame = frame.unionByName(add_keys(self._part, raw, finish_facts(gathered)))
        return frame, finish_facts(gathered)
