"""Running a query whose tables are DataFrames, under names that nobody else uses.

A frame's name is made when a query first reads it, and goes when the frame is gone: most frames are
read by many queries, and a name costs Spark as much as a small query.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tocsin.spark.channels.spark_reading import check_reading

_RUN = uuid.uuid4().hex[:12]
_number = itertools.count()
_names: weakref.WeakKeyDictionary[DataFrame, str] = weakref.WeakKeyDictionary()
_gone: deque[str] = deque()
_lock = threading.Lock()
_WORD = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|[\w.]+""", re.DOTALL)
"""A whole text, quoted name or word: a marker inside another one is no marker."""


def run_sql(
    spark: SparkSession,
    sql: str,
    tables: Mapping[str, DataFrame],
    args: Mapping[str, Any],
    *,
    checked: bool = False,
) -> DataFrame:
    """Analyse `sql`, in which `tables` are named by markers, and answer with its DataFrame.
    `checked`: all that it is made of was read before."""
    if not checked:
        check_reading(spark, sql)
    with contextlib.suppress(IndexError):  # none is left, or another thread took the last
        while True:
            spark.catalog.dropGlobalTempView(_gone.popleft())
    names = {marker: _name(frame) for marker, frame in tables.items()}
    sql = _WORD.sub(lambda word: _named(word[0], names), sql)
    return spark.sql(sql, args=dict(args)) if args else spark.sql(sql)


def _named(word: str, names: Mapping[str, str]) -> str:
    name = names.get(word.strip("`"))
    return word if name is None else f"global_temp.{name}"


def _name(frame: DataFrame) -> str:
    """A global view, because the frames of one query may come from several sessions: a streaming
    batch has its own."""
    with _lock:
        name = _names.get(frame)
        if name is None:
            name = f"tocsin_{_RUN}_{next(_number)}"
            frame.createGlobalTempView(name)
            _names[frame] = name
            # Not dropped here and now: a frame may go in the middle of another call to Java.
            weakref.finalize(frame, _gone.append, name).atexit = False
        return name
