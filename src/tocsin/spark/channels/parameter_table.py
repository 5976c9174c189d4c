"""A channel's parameter sets as Spark tables kept in memory, refreshed by what changed.

Holds every set's arguments on the driver, in columns (`argument_columns`), so that the tables can
be built again without asking anyone. Thread-safe; the frames it gave out stay usable until the next
refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Arguments
from tocsin.protocol import columns
from tocsin.spark.channels.argument_columns import ArgumentColumns
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.openings import Mask, mask_of
from tocsin.spark.channels.parameters import (
    Parameters,
    PartParameters,
    add_keys,
    finish_facts,
    gather_facts,
    joined_facts,
    prepare,
    typed_frame,
)
from tocsin.spark.channels.parts import Part
from tocsin.spark.local import SMALL_ROWS, localised

REBUILD_FRACTION = 0.1
REBUILD_ROWS = 1000
"""Changes beyond the larger of these since the last full build lead to another one."""


class ParameterTable:
    """One channel's parameter sets. `version` is -1 until the first `replace`."""

    def __init__(
        self, spark: SparkSession, compiled: CompiledChannel, *, small_rows: int = SMALL_ROWS
    ) -> None:
        self._spark = spark
        self._compiled = compiled
        self._small_rows = small_rows
        self._lock = threading.Lock()
        self._tables: dict[Mask, _Tables] = {}
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
            for tables in self._tables.values():
                tables.sets.remove(gone)
            self._add(added)
            self._tables = {mask: tables for mask, tables in self._tables.items() if tables.sets}
            self.version = version

    def current(self) -> Parameters | None:
        """The tables as of the last change; None when there is no parameter set."""
        with self._lock:
            by_mask = {mask: tables.current() for mask, tables in self._tables.items()}
            return Parameters(by_mask) if by_mask else None

    def holds(self, backend: int) -> bool:
        """Whether its parameter set is among them, as of the last change."""
        with self._lock:
            return any(backend in tables.sets for tables in self._tables.values())

    def masks(self) -> list[Mask]:
        """What parameter sets leave open, as of the last change."""
        with self._lock:
            return list(self._tables)

    def close(self) -> None:
        with self._lock:
            self._tables = {}

    def _add(self, sets: Iterable[tuple[int, Arguments]]) -> None:
        for backend, arguments in sets:
            mask = mask_of(arguments)
            tables = self._tables.get(mask)
            if tables is None:
                tables = self._tables[mask] = self._make_tables(mask)
            tables.sets.add(backend, arguments)

    def _make_tables(self, mask: Mask) -> _Tables:
        """Parts with the same keys share a table."""
        given = [p for p in self._compiled.channel.parameters if p.name.lower() not in mask]
        sets = ArgumentColumns(given)
        tables: dict[object, _PartTable] = {}
        pairs: list[tuple[Part, _PartTable]] = []
        for part in self._compiled.parts_with(mask):
            alike = (part.keys, part.facts)
            if alike not in tables:
                tables[alike] = _PartTable(self._spark, part, sets)
            pairs.append((part, tables[alike]))
        return _Tables(sets, pairs, self._small_rows)


class _Tables:
    """Of the parameter sets that leave the same parameters open."""

    def __init__(
        self, sets: ArgumentColumns, pairs: list[tuple[Part, _PartTable]], small_rows: int
    ) -> None:
        self.sets = sets
        self._pairs = pairs
        self._small_rows = small_rows

    def current(self) -> tuple[PartParameters, ...]:
        sets = self.sets
        small = len(sets) <= self._small_rows
        if small or sets.changes > max(REBUILD_ROWS, REBUILD_FRACTION * sets.settled):
            sets.settle()
        return tuple(
            PartParameters(part, *table.current(small=small)) for part, table in self._pairs
        )


class _PartTable:
    """The table of parameter sets that one part joins, or several with the same keys."""

    def __init__(self, spark: SparkSession, part: Part, sets: ArgumentColumns) -> None:
        self._spark = spark
        self._part = part
        self._sets = sets
        self._base: DataFrame | None = None
        self._base_as_of = -1
        self._facts: dict[str, Any] = {}
        self._current: tuple[DataFrame, dict[str, Any]] | None = None
        self._as_of = -1

    def current(self, *, small: bool) -> tuple[DataFrame, dict[str, Any]]:
        """The frame to join with, and its facts."""
        if self._current is None or self._as_of != self._sets.version:
            if small:
                self._base = None
                self._current = self._small()
            else:
                if self._base is None or self._base_as_of != self._sets.settled_at:
                    self._rebuild()
                self._current = self._combined()
            self._as_of = self._sets.version
        return self._current

    def _frame(self, columns_: pa.Table) -> DataFrame:
        return typed_frame(self._spark, self._part.parameters, columns_)

    def _small(self) -> tuple[DataFrame, dict[str, Any]]:
        """Few sets are made anew at each change and kept on the driver."""
        _, frame, facts = prepare(self._part, self._frame(self._sets.table))
        # Without keys it is on the driver already, but for casts that Spark's optimiser folds.
        return frame if self._part.keys is None else localised(frame), facts

    def _rebuild(self) -> None:
        raw = self._frame(self._sets.table)
        raw = raw.repartition(self._spark.sparkContext.defaultParallelism)
        self._facts = gather_facts(self._part, raw)
        # A checkpoint, not a cache: Spark looks caches up by plan, and a view of one is another
        # plan, so each run would parse every parameter set again.
        self._base = add_keys(self._part, raw, finish_facts(self._facts)).localCheckpoint()
        self._base_as_of = self._sets.settled_at

    def _combined(self) -> tuple[DataFrame, dict[str, Any]]:
        assert self._base is not None
        frame, removed, added = self._base, self._sets.removed(), self._sets.added()
        if removed:
            gone = self._spark.createDataFrame(pa.table({columns.BACKEND: removed}))
            frame = frame.join(F.broadcast(gone), on=columns.BACKEND, how="left_anti").select(
                *frame.columns
            )
        gathered = self._facts
        if added.num_rows:
            raw = self._frame(added)
            gathered = joined_facts(gathered, gather_facts(self._part, raw))
            frame = frame.unionByName(add_keys(self._part, raw, finish_facts(gathered)))
        return frame, finish_facts(gathered)
