"""Records as Spark columns: from a line of the log to typed columns, and what a dataset makes of
them. Each verb takes a DataFrame and gives one; none of them reads a file or touches a session.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tocsin.model import ATTACHMENT, Dataset
from tocsin.protocol import log_line
from tocsin.protocol.columns import EXTRA, POSITION, RECEIVED_AT

LINE = "line"  # the column that bodies of log lines stand in

_PARSED = "_line"  # a body, parsed
_RANK = "_rank"  # of a record among those of its primary key, the newest first
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


def parse(lines: DataFrame, dataset: Dataset, column: str = LINE) -> DataFrame:
    """Typed columns from the JSON of log lines. The records were checked when they came in."""
    fields = ", ".join(f"{quoted(c.name)}: {spark_type(c.type)}" for c in dataset.columns)
    schema = (
        f"{log_line.POSITION} BIGINT, {log_line.TAKEN_US} BIGINT,"
        f" {log_line.RECORD} STRUCT<{fields}>, {log_line.EXTRA} MAP<STRING,STRING>"
    )
    parsed = lines.select(F.from_json(F.col(column), schema).alias(_PARSED))
    record = f"{_PARSED}.{log_line.RECORD}"
    columns = [f"{record}.{quoted(c.name)} AS {quoted(c.name)}" for c in dataset.columns]
    columns.append(f"{_PARSED}.{log_line.POSITION} AS {POSITION}")
    columns.append(f"timestamp_micros({_PARSED}.{log_line.TAKEN_US}) AS {RECEIVED_AT}")
    if dataset.open:
        extra = f"{_PARSED}.{log_line.EXTRA}"
        columns.append(f"coalesce({extra}, cast(map() AS MAP<STRING,STRING>)) AS {EXTRA}")
    return parsed.selectExpr(*columns)


def keep_retained(records: DataFrame, oldest_us: int) -> DataFrame:
    """Drop what was received at or before a moment."""
    return records.where(F.col(RECEIVED_AT) > F.timestamp_micros(F.lit(oldest_us)))


def keep_newest(records: DataFrame, dataset: Dataset) -> DataFrame:
    """With a primary key only the newest record of each key; all of them without."""
    if not dataset.primary_key:
        return records
    newest_first = Window.partitionBy(*(quoted(name) for name in dataset.primary_key)).orderBy(
        F.col(POSITION).desc()
    )
    ranked = records.withColumn(_RANK, F.row_number().over(newest_first))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def oldest_kept_us(dataset: Dataset, as_of_us: int) -> int | None:
    """What was received up to here is outside RETAIN; None if everything is kept."""
    return None if dataset.retain_s is None else as_of_us - round(dataset.retain_s * 1e6)
