"""Records as Spark columns: from a line of the log to typed columns, and what a dataset makes of
them. Each verb takes a DataFrame and gives one; none of them reads a file or touches a session.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tocsin.model import ATTACHMENT, Dataset

POSITION = "_position"
RECEIVED_AT = "_received_at"
EXTRA = "_extra"
ATTACHED = "STRUCT<id:STRING,size:BIGINT,type:STRING,name:STRING>"


def quoted(name: str) -> str:
    """A column's name as Spark SQL takes it, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def spark_type(kind: str) -> str:
    """A column's type as Spark's DDL has it. Of an attachment, Spark sees what is said of it."""
    return ATTACHED if kind == ATTACHMENT else kind


def schema_of(dataset: Dataset) -> str:
    """The columns of a stored view, as Spark's DDL: declared ones first, then the system's."""
    columns = [f"{quoted(column.name)} {spark_type(column.type)}" for column in dataset.columns]
    columns += [f"{POSITION} BIGINT", f"{RECEIVED_AT} TIMESTAMP"]
    if dataset.open:
        columns.append(f"{EXTRA} MAP<STRING,STRING>")
    return ", ".join(columns)


def parse(lines: DataFrame, dataset: Dataset, column: str = "line") -> DataFrame:
    """Typed columns from the JSON of log lines. The records were checked when they came in."""
    fields = ", ".join(f"{quoted(c.name)}: {spark_type(c.type)}" for c in dataset.columns)
    schema = f"p BIGINT, t BIGINT, r STRUCT<{fields}>, x MAP<STRING,STRING>"
    parsed = lines.select(F.from_json(F.col(column), schema).alias("_line"))
    columns = [f"_line.r.{quoted(c.name)} AS {quoted(c.name)}" for c in dataset.columns]
    columns += [f"_line.p AS {POSITION}", f"timestamp_micros(_line.t) AS {RECEIVED_AT}"]
    if dataset.open:
        columns.append(f"coalesce(_line.x, cast(map() AS MAP<STRING,STRING>)) AS {EXTRA}")
    return parsed.selectExpr(*columns)


def keep_retained(records: DataFrame, oldest_us: int) -> DataFrame:
    """Drop what was received at or before a moment."""
    return records.where(F.col(RECEIVED_AT) > F.timestamp_micros(F.lit(oldest_us)))


def keep_newest(records: DataFrame, dataset: Dataset) -> DataFrame:
    """With a primary key only the newest record of each key; all of them without."""
    if not dataset.primary_key:
        return records
    rank = "_rank"
    newest_first = Window.partitionBy(*(quoted(name) for name in dataset.primary_key)).orderBy(
        F.col(POSITION).desc()
    )
    ranked = records.withColumn(rank, F.row_number().over(newest_first))
    return ranked.where(F.col(rank) == 1).drop(rank)


def oldest_kept_us(dataset: Dataset, as_of_us: int) -> int | None:
    """What was received up to here is outside RETAIN; None if everything is kept."""
    return None if dataset.retain_s is None else as_of_us - round(dataset.retain_s * 1e6)
