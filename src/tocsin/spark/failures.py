"""Whose fault a failed run is: the query's own, its limits', or the machinery's.

Only the query's own failures, and what is too much even for one record, may ever move a channel
past records. So what counts as the query's
is a list; everything else (Java is dead, a disk is full, the store is away, an error that nobody
has met yet) is the machinery's, and the run is tried again from where it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tocsin.errors import TocsinError
from tocsin.spark.asking import Blame, Overlong

__all__ = ["JAVA_IS_GONE", "NO_MEMORY", "Blame", "Overlong", "blame", "reason"]

JAVA_IS_GONE = (Py4JError, OSError)
"""What a call raises when Spark's Java process died, or does not answer."""


# Classes of SQLSTATE by which Spark says that data or the query's text are wrong.
_QUERY_STATES = ("21", "22", "23", "2F", "38", "39", "42", "P0")
# What Java's own libraries throw when they are given a wrong value.
_QUERY_CLASSES = {
    "java.lang.ArithmeticException",
    "java.lang.ArrayIndexOutOfBoundsException",
    "java.lang.IndexOutOfBoundsException",
    "java.lang.NegativeArraySizeException",
    "java.lang.NumberFormatException",
    "java.lang.StringIndexOutOfBoundsException",
    "java.time.DateTimeException",
    "java.time.format.DateTimeParseException",
    "java.util.IllegalFormatException",
    "java.util.regex.PatternSyntaxException",
    "org.apache.kafka.common.errors.RecordTooLargeException",  # a match, in real-time mode
}
# What Java throws when there is no room. Tasks that throw it fail alone (`session.py`).
_MEMORY_CLASSES = {
    "java.lang.OutOfMemoryError",
    "java.lang.StackOverflowError",
    "org.apache.spark.memory.SparkOutOfMemoryError",
}
NO_MEMORY = "it takes more memory than Spark has (setting spark_memory)"
_SPARK_PREFIX = re.compile(r"^\[[\w.]+\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*$")


def blame(error: Exception) -> Blame:
    if isinstance(error, Overlong):
        return Blame.LIMIT
    try:
        for cause in _causes(error):
            state = _sql_state(cause)
            if state is not None and state.startswith(_QUERY_STATES):
                return Blame.QUERY
            name = cause.getClass().getName()
            if name in _QUERY_CLASSES:
                return Blame.QUERY
            if name in _MEMORY_CLASSES:
                return Blame.MEMORY
    except JAVA_IS_GONE:  # Java died before it could be asked
        pass
    return Blame.MACHINERY


def reason(error: Exception) -> str:
    """One line of why, in words that are not Spark's internals."""
    if isinstance(error, Overlong | TocsinError):
        return str(error)
    if blame(error) is Blame.MEMORY:
        return NO_MEMORY
    text = ""
    if isinstance(error, PySparkException):
        text = error.getMessage() or ""
    if isinstance(error, Py4JJavaError):
        try:
            messages = [str(cause.getMessage() or "") for cause in _causes(error)]
        except JAVA_IS_GONE:
            messages = []
        text = next(filter(None, reversed(messages)), "")
    elif isinstance(error, ConnectionError | Py4JError):
        text = "Spark's Java process does not answer"
    text = (text or str(error) or type(error).__name__).strip().splitlines()[0]
    return _SQLSTATE.sub("", _SPARK_PREFIX.sub("", text))[:500]


def _causes(error: Exception) -> Iterator[Any]:
    """Java's exception behind an error, and those behind it."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:  # a streaming query's keeps what was behind it
        inner = getattr(error, "_cause", None)
        yield from () if inner is None else _causes(inner)
    while java is not None:
        yield java
        java = java.getCause()


def _sql_state(cause: Any) -> str | None:
    if not hasattr(cause, "getSqlState"):
        return None
    try:
        state = cause.getSqlState()
    except Py4JError:
        return None
    return None if state is None else str(state)
