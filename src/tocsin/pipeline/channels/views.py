"""Running a query whose tables are DataFrames, under names that nobody else uses or sees after."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_RUN = uuid.uuid4().hex[:12]
_number = itertools.count()


def run_sql(
    spark: SparkSession, sql: str, tables: Mapping[str, DataFrame], args: Mapping[str, Any]
) -> DataFrame:
    """Analyse `sql`, in which `tables` are named by markers, and answer with its DataFrame.

    The views are global ones, because the frames of one query may come from several sessions: a
    streaming batch has its own. Spark resolves them while it analyses, so they can go at once.
    """
    names = {marker: f"tocsin_{_RUN}_{next(_number)}" for marker in tables}
    made: list[str] = []
    try:
        for marker, frame in tables.items():
            frame.createGlobalTempView(names[marker])
            made.append(names[marker])
        if tables:
            markers = "|".join(sorted(map(re.escape, tables), key=len, reverse=True))
            sql = re.sub(
                rf"(?<![\w.`])`?({markers})`?(?![\w`])",
                lambda found: f"global_temp.{names[found.group(1)]}",
                sql,
            )
        return spark.sql(sql, args=dict(args)) if args else spark.sql(sql)
    finally:
        for name in made:
            spark.catalog.dropGlobalTempView(name)
