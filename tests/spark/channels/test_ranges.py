"""Dyadic ranges: a value and an interval share one node exactly when the value's leaf is in it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tocsin.spark.channels import ranges


@given(st.lists(st.integers(), max_size=1000))
def test_bounds_are_sorted_distinct_and_few(values: list[int]) -> None:
    bounds, coarse = ranges.choose_bounds(values)
    assert bounds == sorted(set(bounds))
    assert set(bounds) <= set(values)
    assert len(bounds) < ranges.LEAVES
    assert coarse == bounds[15::16]
    if len(set(values)) < ranges.LEAVES:
        assert bounds == sorted(set(values))


@pytest.mark.spark
def test_nodes_and_ancestors_meet_once(spark: SparkSession) -> None:
    edges = [0, 1, 2, 7, 8, 100, 127, 128, 129, 200, 254, 255]
    pairs = [(a, b) for a in edges for b in edges]
    rows: Any = pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
    spark.createDataFrame(rows).selectExpr("int(a) a", "int(b) b").createOrReplaceTempView("spans")
    shared = f"size(array_intersect({ranges.nodes('a', 'b')}, {ranges.ancestors('leaf')}))"
    sql = (
        f"SELECT count_if({shared} <> if(leaf BETWEEN a AND b, 1, 0)) AS wrong,"  # noqa: S608
        f" max(size({ranges.nodes('a', 'b')})) AS most"
        " FROM spans CROSS JOIN (SELECT int(id) AS leaf FROM range(256))"
    )
    row = spark.sql(sql).first()
    assert row is not None
    assert row["wrong"] == 0
    assert row["most"] <= 2 * ranges.DEPTH
