"""Small frames kept on the driver: Spark then plans joins with them without running jobs of their
own, which is most of the cost of a run over a few hundred rows. What is asked over and over of a
few rows is planned once, and Java's objects are called with the rows.

Only for what is known to be small; everything else stays distributed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

SMALL_BYTES = 4 * 1024 * 1024  # of Parquet and log text: below it a frame is worth keeping local
SMALL_ROWS = 5000

_LOCAL = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_SEPARATOR = "\x1e"  # in no line of JSON: there it would be escaped
_TABLE_ROWS = 1000  # what plans take a table for whose rows they do not know

_relations: WeakKeyDictionary[DataFrame, Any] = WeakKeyDictionary()
_lock = threading.Lock()


def localised(frame: DataFrame, spark: SparkSession | None = None) -> DataFrame:
    """The same rows as a local relation."""
    session = spark or frame.sparkSession
    relation = local_relation(frame)
    if relation is None:
        return collected(session, frame._jdf, frame._jdf.queryExecution().optimizedPlan().output())
    if frame.isLocal() and session is frame.sparkSession:
        return frame
    return local_frame(session, relation.output(), relation.data())


def collected(spark: SparkSession, java: Any, output: Any) -> DataFrame:
    """The rows of a frame of Java's, computed by a job, as a local relation with these columns."""
    rows = java.queryExecution().executedPlan().executeCollect()
    sequences = _jvm(spark).scala.collection.immutable.ArraySeq
    return local_frame(spark, output, sequences.unsafeWrapArray(rows))


def local_relation(frame: DataFrame) -> Any:
    """Java's relation of a frame whose rows are on the driver, or can be computed from such by
    Spark's optimiser alone; None for all others."""
    with _lock:
        known = _relations.get(frame)
    if known is None:
        plan = frame._jdf.queryExecution().optimizedPlan()
        known = plan if plan.getClass().getName() == _LOCAL else False
        with _lock:
            _relations[frame] = known
    return known or None


def local_frame(spark: SparkSession, output: Any, rows: Any) -> DataFrame:
    """Java's rows as a frame with these columns."""
    plans, none = _jvm(spark).org.apache.spark.sql.catalyst.plans, _jvm(spark).scala.Option.empty()
    relation = plans.logical.LocalRelation(output, rows, False, none).newInstance()
    frame = framed(spark, relation)
    with _lock:
        _relations[frame] = relation
    return frame


def joined_rows(frame: DataFrame, more: DataFrame) -> DataFrame | None:
    """Both one's rows, which have the same columns; None: they are not on the driver."""
    first, second = local_relation(frame), local_relation(more)
    if first is None or second is None:
        return None
    rows = first.data().appendedAll(second.data())
    return local_frame(frame.sparkSession, first.output(), rows)


def text_rows(spark: SparkSession, column: str, texts: Sequence[str]) -> DataFrame:
    """Texts as a frame of one column, on the driver."""
    joined = _SEPARATOR.join(texts)
    if not texts or "" in texts or joined.count(_SEPARATOR) != len(texts) - 1:
        return spark.createDataFrame(pa.table({column: pa.array(texts, pa.string())}))
    jvm = _jvm(spark)
    listed = jvm.java.util.Collections.list(jvm.java.util.StringTokenizer(joined, _SEPARATOR))
    java = spark._jsparkSession.createDataset(listed, jvm.org.apache.spark.sql.Encoders.STRING())
    return local_frame(spark, _text_column(spark, column), java.queryExecution().logical().data())


def _text_column(spark: SparkSession, name: str) -> Any:
    schema = StructType([StructField(name, StringType())]).json()
    catalyst = _jvm(spark).org.apache.spark.sql.catalyst
    parsed = _jvm(spark).org.apache.spark.sql.types.DataType.fromJson(schema)
    return catalyst.types.DataTypeUtils.toAttributes(parsed)


class Projected:
    """What `change` makes of frames, row by row, planned once. NotImplementedError: it is more
    than a change of rows. Thread-safe."""

    def __init__(
        self, spark: SparkSession, like: DataFrame, change: Callable[[DataFrame], DataFrame]
    ) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        jvm = _jvm(spark)
        nothing = spark.sparkContext._jsc.sc().emptyRDD(row_tag(spark))
        opaque = framed(spark, scan(spark, like._jdf.schema(), nothing))
        plan = change(opaque)._jdf.queryExecution().optimizedPlan()
        self._output = plan.output()
        self._steps: list[Any] = []
        while plan.getClass().getName() == _PROJECT:
            expressions = jvm.org.apache.spark.sql.catalyst.expressions
            step = expressions.InterpretedProjection(plan.projectList(), plan.child().output())
            self._steps.insert(0, step)
            plan = plan.child()
        if plan.getClass().getSimpleName() != "LogicalRDD":
            raise NotImplementedError

    def of(self, frame: DataFrame) -> DataFrame:
        """`frame` has its rows on the driver."""
        rows = local_relation(frame).data()
        with self._lock:
            for step in self._steps:
                rows = rows.map(step)
        return local_frame(self._spark, self._output, rows)


def framed(spark: SparkSession, plan: Any) -> DataFrame:
    """A logical plan of Java's as a frame."""
    dataset = _jvm(spark).org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def scan(spark: SparkSession, schema: Any, rdd: Any) -> Any:
    """A logical plan that reads an RDD of rows, of one partition."""
    jvm = _jvm(spark)
    sql, none = jvm.org.apache.spark.sql, jvm.scala.Option.empty()
    size = spark.range(_TABLE_ROWS)._jdf.queryExecution().analyzed().stats()
    return sql.execution.LogicalRDD(
        sql.catalyst.types.DataTypeUtils.toAttributes(schema),
        rdd,
        _only(sql.catalyst.plans.physical, "SinglePartition"),
        _only(jvm.scala.collection.immutable, "Nil"),
        False,
        none,
        spark._jsparkSession,
        jvm.scala.Some(size),
        none,
    )


def row_tag(spark: SparkSession) -> Any:
    """How Scala names the class of rows."""
    jvm = _jvm(spark)
    return jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName(_ROW))


def _only(package: Any, name: str) -> Any:
    """A singleton of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
