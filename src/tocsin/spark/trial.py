"""A channel's query, tried on the records and parameter sets of one run, or on some of them.

Each try has a time limit. Knows neither store nor progress, and decides nothing about failures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from threading import BoundedSemaphore
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Arguments
from tocsin.protocol import columns
from tocsin.spark.answering import Prepared
from tocsin.spark.asking import MATCH, Ask, Blame, Record, Row, Rows, rows_of
from tocsin.spark.channels import CompiledChannel, Parameters, ParameterTable, match
from tocsin.spark.failures import blame, reason
from tocsin.spark.job_group import time_limit
from tocsin.spark.phases import phase
from tocsin.spark.records import quoted
from tocsin.spark.snapshot import Snapshot
from tocsin.spark.standing_queries import StandingQueries

__all__ = ["Ask", "Record", "Row", "Rows", "SparkQueries", "Trial"]

MOST_LISTED = 200  # positions that a condition lists; more are joined
AT_ONCE = 5  # queries that are planned and run by themselves
_ALONE = BoundedSemaphore(AT_ONCE)


class Trial:
    """`standing` may know the answer of all records and parameter sets sooner."""

    def __init__(
        self,
        spark: SparkSession,
        compiled: CompiledChannel,
        ask: Ask,
        parameters: Parameters,
        standing: StandingQueries | None = None,
    ) -> None:
        self._spark = spark
        self._compiled = compiled
        self._parameters = parameters
        self._ask = ask
        self._standing = standing
        snapshot, window = cast(Snapshot, ask.snapshot), ask.window
        with phase("views"):
            self._stored = {name: snapshot.stored(name) for name in compiled.stored}
            self._new = {name: snapshot.window(name, *window.range(name)) for name in compiled.new}

    def rows(
        self,
        *,
        only: Sequence[Record] | None = None,
        without: Collection[Record] = (),
        sets: Mapping[int, Arguments] | None = None,
    ) -> Rows:
        """The results in the order to store them: of all records and parameter sets, or of some."""
        table = None
        if self._standing is not None and only is None and not without and sets is None:
            table = self._standing.rows(
                self._compiled, self._parameters, self._stored, self._new, self._ask.limit_s
            )
        if table is None:
            table = self._rows(only, without, sets)
        return Rows() if table is None else rows_of(table)

    def _rows(
        self,
        only: Sequence[Record] | None,
        without: Collection[Record],
        sets: Mapping[int, Arguments] | None,
    ) -> pa.Table | None:
        new = {name: _chosen(frame, name, only, without) for name, frame in self._new.items()}
        parameters: Parameters | None = self._parameters
        if sets is not None:
            parameters = parameters_of(self._spark, self._compiled, sets)
        if parameters is None:
            return None
        purpose = f"channel {self._compiled.channel.name}"
        with _ALONE, time_limit(self._spark, purpose, self._ask.limit_s):
            with phase("plan"):
                matched = match(
                    self._spark,
                    self._compiled,
                    parameters,
                    self._stored,
                    new,
                    self._ask.window.times(),
                )
            with phase("execute"):
                table = matched.toArrow()
        return table.sort_by([(name, "ascending") for name in MATCH])

    def fails(self, records: Sequence[Record], sets: Mapping[int, Arguments]) -> str | None:
        """Why the query cannot compute with these; None: it can. Raises what is not its fault."""
        try:
            self.rows(only=records, sets=sets)
        except Exception as error:
            if blame(error) not in (Blame.QUERY, Blame.MEMORY):
                raise
            return reason(error)
        return None

    def records(self) -> list[Record]:
        """All new records, by where they stand."""
        return [
            Record(name, position)
            for name, frame in self._new.items()
            for position in sorted(frame.select(columns.POSITION).toArrow().column(0).to_pylist())
        ]

    def texts(self, records: Collection[Record]) -> list[tuple[Record, str]]:
        """The records' fields as JSON."""
        texts = []
        for name, frame in self._new.items():
            fields = [quoted(field) for field in frame.columns if not columns.is_system(field)]
            chosen = _chosen(frame, name, [record for record in records if record.dataset == name])
            table = chosen.select(columns.POSITION, F.to_json(F.struct(*fields))).toArrow()
            pairs = zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)
            texts += [(Record(name, position), text) for position, text in sorted(pairs)]
        return texts


class SparkQueries:
    """Queries as Spark computes them. For one channel it is asked by one thread at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._standing = StandingQueries(spark)
        self._subsets: dict[str, _Subset] = {}

    def parameters(self, prepared: Prepared, sets: Mapping[int, Arguments]) -> Parameters | None:
        """Those who are asked for beside all others are often the same as before."""
        compiled = cast(CompiledChannel, prepared.compiled)
        name = compiled.channel.name
        subset = self._subsets.get(name)
        if subset is None or subset.compiled is not compiled:
            subset = self._subsets[name] = _Subset(self._spark, compiled)
        return subset.parameters(sets)

    def tries(self, prepared: Prepared, ask: Ask, parameters: Parameters) -> Trial:
        compiled = cast(CompiledChannel, prepared.compiled)
        return Trial(self._spark, compiled, ask, parameters, self._standing)

    def forget(self, name: str) -> None:
        self._standing.forget(name)
        self._subsets.pop(name, None)

    def blame(self, error: Exception) -> Blame:
        return blame(error)

    def reason(self, error: Exception) -> str:
        return reason(error)


class _Subset:
    """Some of a channel's parameter sets, others at times than before."""

    def __init__(self, spark: SparkSession, compiled: CompiledChannel) -> None:
        self.compiled = compiled
        self._table = ParameterTable(spark, compiled, subset=True)
        self._there: set[int] = set()

    def parameters(self, sets: Mapping[int, Arguments]) -> Parameters | None:
        """None: there are none. What a number stands for never changes."""
        added = [(number, sets[number]) for number in sets.keys() - self._there]
        self._table.update(self._table.version + 1, added, self._there - sets.keys())
        self._there = set(sets)
        return self._table.current()


def parameters_of(
    spark: SparkSession, compiled: CompiledChannel, sets: Mapping[int, Arguments]
) -> Parameters | None:
    """These parameter sets, by backend subscription; None: there are none."""
    table = ParameterTable(spark, compiled)
    table.replace(0, sets.items())
    return table.current()


def _chosen(
    frame: DataFrame,
    dataset: str,
    only: Sequence[Record] | None,
    without: Collection[Record] = (),
) -> DataFrame:
    position = F.col(columns.POSITION)
    if only is not None:
        wanted = [record.position for record in only if record.dataset == dataset]
        if not wanted:
            return frame.where(F.lit(False))
        if len(wanted) > MOST_LISTED:
            listed = frame.sparkSession.createDataFrame(pa.table({columns.POSITION: wanted}))
            return frame.join(F.broadcast(listed), on=columns.POSITION, how="left_semi")
        frame = frame.where(position.isin(wanted))
    unwanted = [record.position for record in without if record.dataset == dataset]
    return frame.where(~position.isin(unwanted)) if unwanted else frame
