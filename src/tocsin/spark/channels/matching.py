"""One run of a channel: all its parameter sets against the records, in one Spark query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.protocol import columns
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.keyed import add_key
from tocsin.spark.channels.parameters import Parameters, PartParameters
from tocsin.spark.channels.query import (
    PARAMETERS_MARKER,
    PlainQuery,
    new_marker,
    stored_marker,
)
from tocsin.spark.channels.views import run_sql

JSON_OPTIONS = {
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
    """Who gets what, in the columns BACKEND, ORDER and PAYLOAD.

    `views` has the stored datasets, `new_views` the new records of those marked NEW. `spark` is the
    session to run in.
    """
    matches = (
        payloads(rows(spark, compiled, parts, views, new_views, window))
        for parts in parameters.by_mask.values()
    )
    return reduce(DataFrame.unionAll, matches)


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
        start, end = window
        times[columns.WINDOW_START] = start.astimezone(UTC)
        times[columns.WINDOW_END] = end.astimezone(UTC)
    frames: list[DataFrame] = []
    for part, frame, facts in parts:
        tables = {PARAMETERS_MARKER: frame, **sources}
        tables |= {
            keyed.marker: add_key(keyed, tables[keyed.source], facts) for keyed in part.keyed
        }
        frames.append(run_sql(spark, part.sql, tables, facts | times))
    return reduce(DataFrame.unionAll, frames)


def visible(names: list[str]) -> list[str]:
    return [name for name in names if not columns.is_system(name)]


def payloads(frame: DataFrame) -> DataFrame:
    """Each row as a JSON object of its visible columns."""
    has_order = columns.ROW_ORDER in frame.columns
    order = F.col(columns.ROW_ORDER) if has_order else F.lit(0).cast("bigint")
    return frame.select(
        F.col(columns.ROW_BACKEND).alias(columns.BACKEND),
        order.alias(columns.ORDER),
        as_json(frame, visible(frame.columns)).alias(columns.PAYLOAD),
    )


def as_json(frame: DataFrame, names: Sequence[str]) -> Column:
    """Each row as the JSON object that subscribers get."""
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), JSON_OPTIONS)


def run_plain(spark: SparkSession, query: PlainQuery, views: Mapping[str, DataFrame]) -> DataFrame:
    """The answer of an ad hoc query over the stored datasets `views`."""
    marked = {stored_marker(name): views[name] for name in query.datasets}
    return run_sql(spark, query.sql, marked, query.args)
