"""Views of datasets with one more column: the key of a grid cell to join on.

Channels that ask alike share one making of such a view. Frames never change, so what was made of
one is kept for as long as the frame itself lives.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from pyspark.sql import DataFrame

from tocsin.spark.channels.views import run_sql
from tocsin.spark.local import localised

_SOURCE = "__source"


class Keyed(Struct, frozen=True):
    """`source` is the marker of the view that gets the column. `several`: `keys` is an array, and
    a record comes once per key."""

    source: str
    name: str
    keys: str
    several: bool

    @property
    def marker(self) -> str:
        text = "\n".join((self.source, self.name, self.keys))
        return f"__keyed_{blake2b(text.encode(), digest_size=6).hexdigest()}"


class _Derived:
    """What was made of one frame."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.frames: dict[tuple[Keyed, str], DataFrame] = {}


_derived: WeakKeyDictionary[DataFrame, _Derived] = WeakKeyDictionary()
_lock = threading.Lock()


def add_key(keyed: Keyed, frame: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """`frame` with its key; a small frame's is made here and now, and stays on the driver."""
    used = {name: value for name, value in facts.items() if f":{name}" in keyed.keys}
    with _lock:
        derived = _derived.setdefault(frame, _Derived())
    with derived.lock:
        known = (keyed, repr(sorted(used.items())))
        if known not in derived.frames:
            derived.frames[known] = _add_key(keyed, frame, used)
        return derived.frames[known]


def _add_key(keyed: Keyed, frame: DataFrame, args: Mapping[str, Any]) -> DataFrame:
    keys = f"EXPLODE({keyed.keys})" if keyed.several else keyed.keys
    sql = f"SELECT *, {keys} AS {keyed.name} FROM {_SOURCE}"  # noqa: S608
    keyed_frame = run_sql(frame.sparkSession, sql, {_SOURCE: frame}, args)
    # A plain column is folded into a local relation by Spark's optimiser; an explosion is a job.
    return localised(keyed_frame) if keyed.several and frame.isLocal() else keyed_frame
