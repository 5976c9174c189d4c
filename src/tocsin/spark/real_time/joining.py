"""Records joined with the parameter sets of all members: frames in, a frame out.

What a plan must know of all sets together is fixed when the query is made, in a way that holds for
sets to come: as boundaries of ranges do, between which any value falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InvalidInput
from tocsin.model import Dataset
from tocsin.protocol import columns
from tocsin.spark.channels import CompiledChannel, Mask
from tocsin.spark.channels.parameters import finish_facts
from tocsin.spark.channels.query import PARAMETERS
from tocsin.spark.channels.views import run_sql
from tocsin.spark.failures import reason
from tocsin.spark.real_time.members import RECORD, Form, Member, Slot, make_member
from tocsin.spark.real_time.shared import (
    BOUNDS_NUMBER,
    BOUNDS_VALUES,
    RECORDS_MARKER,
    SETS_MARKER,
    TABLE_MARKER,
    SharedText,
    bounds_names,
)
from tocsin.spark.records import schema_of

_SETTINGS = {
    # Code for a whole stage cannot be cut into pieces, and that of many members is larger than what
    # Java takes.
    "spark.sql.codegen.wholeStage": "false",
    # It would compute all keys of a record twice, to see that there are some.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromGenerate"
    ),
}
_EQUALITIES = ("EqualTo", "EqualNullSafe")


def sharing_session(spark: SparkSession) -> SparkSession:
    """A session for queries that many members share."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def trying_session(spark: SparkSession) -> SparkSession:
    """A session for tries, each of another text: to compile them would take longer than they do."""
    session = sharing_session(spark)
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def matches(
    spark: SparkSession,
    text: SharedText,
    sets: DataFrame,
    records: DataFrame,
    *,
    checked: bool = False,
) -> DataFrame:
    """Who gets what of the records, in the columns CHANNEL, BACKEND, ORDER and PAYLOAD. `sets` has
    the id, channel and arguments of backend subscriptions. `checked`: Members made each member."""
    bounds = _bounds(spark, text, sets, checked=checked)
    table = run_sql(spark, text.table_sql, {SETS_MARKER: sets}, bounds, checked=checked)
    tables = {RECORDS_MARKER: records, TABLE_MARKER: table}
    return run_sql(spark, text.matches_sql, tables, bounds, checked=checked)


def _bounds(
    spark: SparkSession, text: SharedText, sets: DataFrame, *, checked: bool
) -> dict[str, str]:
    """Boundaries of ranges by name. One small Spark job, if there are ranges."""
    if not text.bounds_sql:
        return {}
    table = run_sql(spark, text.sets_sql, {SETS_MARKER: sets}, {}, checked=checked)
    frame = run_sql(spark, text.bounds_sql, {TABLE_MARKER: table}, {}, checked=checked)
    values: dict[int, list[Any]] = {}
    for row in frame.collect():
        its = values.setdefault(row[BOUNDS_NUMBER], [])
        its += msgspec.json.decode(row[BOUNDS_VALUES] or "[]")
    bounds: dict[str, str] = {}
    for number, its in values.items():
        facts = finish_facts({columns.BOUNDS: msgspec.json.encode(its).decode()})
        every, coarse = bounds_names(number)
        bounds |= {every: facts[columns.BOUNDS], coarse: facts[columns.COARSE_BOUNDS]}
    return bounds


class Members:
    """Makes members, with what Spark says of their expressions. What was asked is remembered: many
    channels ask alike."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._no_sets = spark.createDataFrame([], "id BIGINT, channel STRING, arguments STRING")
        self._no_records: dict[str, DataFrame] = {}
        self._types: dict[tuple[str, str], list[str | None]] = {}
        self._read: set[tuple[str, Form]] = set()

    def make(self, compiled: CompiledChannel, mask: Mask) -> Member:
        """Raises InvalidInput with the reason why the channel cannot share a query."""
        (name,) = compiled.new
        schema = schema_of(compiled.datasets[name])
        try:
            member = make_member(compiled, mask, self._compared_types)
            if (schema, member.form) not in self._read:
                self._analyse(SharedText([member]), schema)
                self._read.add((schema, member.form))
        except PySparkException as error:
            raise InvalidInput(f"it cannot share a query: {reason(error)}") from None
        return member

    def _compared_types(
        self, equalities: Sequence[str], dataset: Dataset, slots: Sequence[Slot]
    ) -> list[str | None]:
        schema = schema_of(dataset)
        values = ", ".join(f"CAST(NULL AS {slot.type}) AS {slot.column}" for slot in slots)
        tests = ", ".join(f"{text} AS __{number}" for number, text in enumerate(equalities))
        sets = f"(SELECT {values}) AS {PARAMETERS}"
        sql = f"SELECT {tests} FROM {RECORDS_MARKER} AS {RECORD} CROSS JOIN {sets}"  # noqa: S608
        if (sql, schema) not in self._types:
            frame = run_sql(self._spark, sql, {RECORDS_MARKER: self._records(schema)}, {})
            outputs = frame._jdf.queryExecution().analyzed().expressions()
            compared = [_compared_as(outputs.apply(n).child()) for n in range(len(equalities))]
            self._types[sql, schema] = compared
        return self._types[sql, schema]

    def _analyse(self, text: SharedText, schema: str) -> None:
        """Let Spark read what one member brings into a text of many."""
        matches(self._spark, text, self._no_sets, self._records(schema))

    def _records(self, schema: str) -> DataFrame:
        """None of them."""
        if schema not in self._no_records:
            self._no_records[schema] = self._spark.createDataFrame([], schema)
        return self._no_records[schema]


MakeMember = Callable[[CompiledChannel, Mask], Member]


def _compared_as(test: Any) -> str | None:
    """The type of both sides of an analysed equality."""
    if test.getClass().getSimpleName() not in _EQUALITIES:
        return None
    left, right = (side.dataType().sql() for side in (test.left(), test.right()))
    return str(left) if left == right and "COLLATE" not in left else None
