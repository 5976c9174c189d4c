"""What names of Java's stand for, asked once.

PySpark walks from `org` to a class whenever it wants that class, and asks Java at each step. Java
then looks in each of Spark's 250 jars whether `org` is a class, or `apache` in it: a sixth of its
time went there where queries are small. Py4J keeps what is set on its objects, and asks no more.
"""

from __future__ import annotations

from typing import Any

_CLASSES = (
    "java.lang.String",
    "java.util.ArrayList",
    "java.util.Collections",
    "java.util.StringTokenizer",
    "org.apache.spark.rdd.RDD",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.catalyst.plans.logical.LocalRelation",
    "org.apache.spark.sql.catalyst.types.DataTypeUtils",
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.sql.execution.SQLExecutionRDD",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.types.DataType",
    "py4j.reflection.TypeUtil",
    "scala.Option",
    "scala.collection.immutable.ArraySeq",
    "scala.reflect.ClassTag",
)
"""Reached by walking."""
_NAMES = (
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SparkSession",
    "functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.expressions.Window",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
)
"""Asked for as they are."""


def keep_names(jvm: Any) -> None:
    """From now on what PySpark and we use most is known without asking."""
    for path in _CLASSES:
        place = jvm
        for name in path.split("."):
            if name not in vars(place):
                setattr(place, name, getattr(place, name))
            place = vars(place)[name]
    for name in _NAMES:
        setattr(jvm, name, getattr(jvm, name))
