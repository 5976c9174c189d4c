"""One run of a channel: all its parameter sets against the records, in one Spark query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.pipeline.channels.compile import CompiledChannel
from tocsin.pipeline.channels.keyed import add_key
from tocsin.pipeline.channels.parameters import Parameters, PartParameters
from tocsin.pipeline.channels.parts import BACKEND, ORDER
from tocsin.pipeline.channels.query import (
    PARAMETERS_MARKER,
    PlainQuery,
    new_marker,
    stored_marker,
)
from tocsin.pipeline.channels.views import run_sql

_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timeZone": "UTC",
}


def match(
    spark: SparkSession,
    compiled: CompiledChannel,
    parameters: Parameters,
    views: Mapping[str, DataFrame],
    new_views: Mapping[str, DataFrame],
    window: tuple[datetime, datetime] | None = None,
) -> DataFrame:
    """Who gets what: `__backend` BIGINT, `__order` BIGINT, `payload` STRING (a JSON object).

    `views` has the stored datasets, `new_views` the new records of those marked NEW. `spark` is the
    session to run in.
    """
    found = (
        payloads(rows(spark, compiled, parts, views, new_views, window))
        for parts in parameters.by_mask.values()
    )
    return reduce(DataFrame.unionAll, found)


def rows(
    spark: SparkSession,
    compiled: CompiledChannel,
    parts: Sequence[PartParameters],
    views: Mapping[str, DataFrame],
    new_views: Mapping[str, DataFrame],
    window: tuple[datetime, datetime] | None,
) -> DataFrame:
    """The query's own columns for every backend subscription with the same parameters open."""
    sources = {stored_marker(name): views[name] for name in compiled.stored}
    sources |= {new_marker(name): new_views[name] for name in compiled.new}
    times: dict[str, Any] = {}
    if compiled.uses_window:
        if window is None:
            raise ValueError(f"channel {compiled.channel.name} needs its run's window")
        times["__window_start"], times["__window_end"] = (each.astimezone(UTC) for each in window)
    found: list[DataFrame] = []
    for part, frame, facts in parts:
        tables = {PARAMETERS_MARKER: frame, **sources}
        tables |= {each.marker: add_key(each, tables[each.source], facts) for each in part.keyed}
        found.append(run_sql(spark, part.sql, tables, facts | times))
    return reduce(DataFrame.unionAll, found)


def visible(columns: list[str]) -> list[str]:
    return [name for name in columns if not name.startswith("_")]


def payloads(found: DataFrame) -> DataFrame:
    """Each row as a JSON object of its visible columns."""
    order = F.col(ORDER) if ORDER in found.columns else F.lit(0).cast("bigint")
    return found.select(
        F.col(BACKEND).alias("__backend"),
        order.alias("__order"),
        as_json(found, visible(found.columns)).alias("payload"),
    )


def as_json(found: DataFrame, columns: Sequence[str]) -> Column:
    """Each row as the JSON object that subscribers get."""
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns)), _JSON)


def run_plain(spark: SparkSession, query: PlainQuery, views: Mapping[str, DataFrame]) -> DataFrame:
    """The answer of an ad hoc query over the stored datasets `views`."""
    return run_sql(spark, query.sql, {stored_marker(n): views[n] for n in query.datasets}, {})
