"""A channel's parameter sets as Spark tables kept in memory, refreshed by what changed.

Holds every set's arguments on the driver, in columns (`argument_columns`), so that the tables can
be built again without asking anyone. Thread-safe; what it gave out stays usable until the next
refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
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
    ByMask,
    Layer,
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
        self,
        spark: SparkSession,
        compiled: CompiledChannel,
        *,
        small_rows: int = SMALL_ROWS,
        subset: bool = False,
    ) -> None:
        """`subset`: it will not have all the sets that the channel has."""
        self._spark = spark
        self._subset = subset
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
            if not self._tables:
                return None
            for tables in self._tables.values():
                tables.refresh()
            return Parameters(list(self._layers()), self._together, subset=self._subset)

    def _layers(self) -> Iterator[Layer]:
        """A large table is one by itself. What came to it since is with the small ones, which are
        looked at anew in each run."""
        for mask, tables in self._tables.items():
            if not tables.small:
                gone = frozenset(tables.sets.removed())
                yield Layer({mask: tables.settled()}, lasts=True, gone=gone)
        fresh = {mask: tables.fresh() for mask, tables in self._tables.items()}
        there = {mask: parts for mask, parts in fresh.items() if parts is not None}
        if there:
            yield Layer(there)

    def _together(self) -> ByMask:
        with self._lock:
            return {mask: tables.together() for mask, tables in self._tables.items()}

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
        self.small = True
        self._pairs = pairs
        self._small_rows = small_rows

    def refresh(self) -> None:
        sets = self.sets
        self.small = len(sets) <= self._small_rows
        bearable = max(REBUILD_ROWS, REBUILD_FRACTION * sets.settled)
        if self.small or not sets.settled or sets.changes > bearable:
            sets.settle()

    def together(self) -> tuple[PartParameters, ...]:
        """All of them."""
        return self._of(_PartTable.small if self.small else _PartTable.combined)

    def settled(self) -> tuple[PartParameters, ...]:
        """Of a large table, all that were there when it was made."""
        return self._of(_PartTable.settled)

    def fresh(self) -> tuple[PartParameters, ...] | None:
        """All of a small table, and of a large one those that came since; None: there are none."""
        if self.small:
            return self._of(_PartTable.small)
        return self._of(_PartTable.added) if self.sets.came else None

    def _of(self, table: Callable[[_PartTable], _Table]) -> tuple[PartParameters, ...]:
        return tuple(PartParameters(part, *table(its)) for part, its in self._pairs)


_Table = tuple[DataFrame, dict[str, Any]]
"""A frame to join with, and its facts."""


class _PartTable:
    """The table of parameter sets that one part joins, or several with the same keys. What was
    made is kept for as long as the sets are the same."""

    def __init__(self, spark: SparkSession, part: Part, sets: ArgumentColumns) -> None:
        self._spark = spark
        self._part = part
        self._sets = sets
        self._base: _Table | None = None
        self._base_as_of = -1
        self._facts: dict[str, Any] = {}  # of the base, as they were gathered
        self._made: dict[str, _Table] = {}
        self._made_as_of = -1

    def small(self) -> _Table:
        """Few sets are made anew at each change and kept on the driver."""
        self._base = None
        return self._kept("small", lambda: self._local(self._sets.table))

    def settled(self) -> _Table:
        if self._base is None or self._base_as_of != self._sets.settled_at:
            self._base = self._rebuilt()
            self._base_as_of = self._sets.settled_at
        return self._base

    def added(self) -> _Table:
        """Those that came since, on the driver."""
        return self._kept("added", lambda: self._local(self._sets.added()))

    def combined(self) -> _Table:
        return self._kept("combined", self._combined)

    def _kept(self, name: str, make: Callable[[], _Table]) -> _Table:
        if self._made_as_of != self._sets.version:
            self._made, self._made_as_of = {}, self._sets.version
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def _frame(self, columns_: pa.Table) -> DataFrame:
        return typed_frame(self._spark, self._part.parameters, columns_)

    def _local(self, columns_: pa.Table) -> _Table:
        _, frame, facts = prepare(self._part, self._frame(columns_))
        # Without keys it is on the driver already, but for casts that Spark's optimiser folds.
        return frame if self._part.keys is None else localised(frame), facts

    def _rebuilt(self) -> _Table:
        raw = self._frame(self._sets.table)
        raw = raw.repartition(self._spark.sparkContext.defaultParallelism)
        self._facts = gather_facts(self._part, raw)
        facts = finish_facts(self._facts)
        # A checkpoint, not a cache: Spark looks caches up by plan, and a view of one is another
        # plan, so each run would parse every parameter set again.
        return add_keys(self._part, raw, facts).localCheckpoint(), facts

    def _combined(self) -> _Table:
        frame, _ = self.settled()
        removed, added = self._sets.removed(), self._sets.added()
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
