"""Parameter sets as a Spark table: typed columns, the facts a query needs, the keys it joins on.

Makes one part's table from given sets; `parameter_table` keeps a channel's tables up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Parameter
from tocsin.protocol import columns
from tocsin.spark.channels.argument_columns import ARROW
from tocsin.spark.channels.openings import Mask
from tocsin.spark.channels.parts import Part
from tocsin.spark.channels.query import PARAMETERS, PARAMETERS_MARKER
from tocsin.spark.channels.ranges import choose_bounds
from tocsin.spark.channels.views import run_sql

_encode = msgspec.json.Encoder().encode
_TABLE = f"{PARAMETERS_MARKER} AS {PARAMETERS}"


class PartParameters(NamedTuple):
    """A part, the table that it joins, and the facts about it that the query needs by name."""

    part: Part
    frame: DataFrame
    facts: dict[str, Any]


ByMask = Mapping[Mask, tuple[PartParameters, ...]]
"""Those with the same parameters open together, in a table for each part of their query."""


class Layer(Struct, frozen=True):
    """Some of a channel's parameter sets. `lasts`: these tables stay as they are for long, so that
    what a query makes of them is worth keeping; `gone` are then the sets that are in them still."""

    by_mask: ByMask
    lasts: bool = False
    gone: frozenset[int] = frozenset()


class Parameters:
    """A channel's parameter sets: all together as `match` joins them, made when they are wanted,
    or in layers of which each is asked for by itself. `subset`: they are not all that it has."""

    def __init__(
        self, layers: Sequence[Layer], together: Callable[[], ByMask], *, subset: bool = False
    ) -> None:
        self.layers = layers
        self.subset = subset
        self._together = together

    @classmethod
    def of(cls, by_mask: ByMask) -> Parameters:
        return cls([Layer(by_mask)], lambda: by_mask)

    @cached_property
    def by_mask(self) -> ByMask:
        return self._together()


def typed_frame(spark: SparkSession, parameters: Sequence[Parameter], table: pa.Table) -> DataFrame:
    """Of what `argument_columns` keeps: BACKEND, and the parameters in their own types."""
    outputs = [F.col(columns.BACKEND)]
    for parameter in parameters:
        name = columns.parameter_column(parameter.name)
        value = F.col(name)
        if parameter.type not in ARROW:
            value = value.cast(parameter.type).alias(name)
        outputs.append(value)
    names = [columns.BACKEND, *(columns.parameter_column(p.name) for p in parameters)]
    return spark.createDataFrame(table.select(names)).select(*outputs)


def gather_facts(part: Part, frame: DataFrame) -> dict[str, Any]:
    """What the query must know of all parameter sets together. One small Spark job, if any."""
    if not part.facts:
        return {}
    sums = ", ".join(f"{text} AS {name}" for name, text in part.facts)
    sql = " ".join(("SELECT", sums, "FROM", _TABLE))
    row = run_sql(frame.sparkSession, sql, {PARAMETERS_MARKER: frame}, {}).first()
    assert row is not None
    return row.asDict()


def finish_facts(gathered: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as the query takes them: never NULL, boundaries thinned."""
    facts = dict(gathered)
    if columns.BOUNDS in facts:
        bounds, coarse = choose_bounds(msgspec.json.decode(facts[columns.BOUNDS] or "[]"))
        facts[columns.BOUNDS] = _encode(bounds).decode()
        facts[columns.COARSE_BOUNDS] = _encode(coarse).decode()
    if columns.LEVELS in facts:
        facts[columns.LEVELS] = facts[columns.LEVELS] or "[]"
    return {name: -1.0 if value is None else value for name, value in facts.items()}


def joined_facts(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of two tables together. Boundaries stay: the base's keys were made with them."""
    joined = dict(base)
    for name, value in more.items():
        if name == columns.LEVELS:
            levels = {*msgspec.json.decode(base[name] or "[]"), *msgspec.json.decode(value or "[]")}
            joined[name] = _encode(sorted(levels)).decode()
        elif columns.is_reach_fact(name):
            joined[name] = max((x for x in (base[name], value) if x is not None), default=None)
    return joined


def add_keys(part: Part, frame: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """One row per key that a parameter set is found by."""
    if part.keys is None:
        return frame
    sql = f"SELECT *, {part.keys} FROM {_TABLE}"  # noqa: S608
    return run_sql(frame.sparkSession, sql, {PARAMETERS_MARKER: frame}, facts)


def prepare(part: Part, frame: DataFrame) -> PartParameters:
    """A part's table from a frame of BACKEND and typed columns of parameters, not cached."""
    facts = finish_facts(gather_facts(part, frame))
    return PartParameters(part, add_keys(part, frame, facts), facts)
