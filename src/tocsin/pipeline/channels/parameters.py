"""The parameter sets of one channel as a Spark table kept in memory, refreshed by what changed.

Holds every set's canonical arguments on the driver as text, so that the table can be built again
without asking anyone. Thread-safe; the frames it gave out stay usable until the next refresh.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Arguments, Channel
from tocsin.pipeline.channels.compile import CompiledChannel
from tocsin.pipeline.channels.query import parameter_column
from tocsin.pipeline.channels.ranges import choose_bounds
from tocsin.pipeline.channels.views import run_sql
from tocsin.pipeline.local import SMALL_ROWS, localised

REBUILD_FRACTION = 0.1
REBUILD_ROWS = 1000
"""Changes beyond the larger of these since the last full build lead to another one."""

_encode = msgspec.json.Encoder().encode


class Parameters(Struct, frozen=True):
    """The table as `match` joins it, and the facts about it that the query needs by name."""

    frame: DataFrame
    facts: dict[str, Any]


_ARROW = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
}
"""Types whose canonical JSON value is the value; the others are text that Spark casts."""


def parameter_frame(
    spark: SparkSession, channel: Channel, sets: Iterable[tuple[int, str]]
) -> DataFrame:
    """Arguments, given as JSON text, as typed columns beside `__backend`."""
    ids, arguments = [], []
    for backend, text in sets:
        ids.append(backend)
        arguments.append(msgspec.json.decode(text))
    columns = {"__backend": pa.array(ids, pa.int64())}
    outputs = [F.col("__backend")]
    for parameter in channel.parameters:
        name, kind = parameter_column(parameter.name), _ARROW.get(parameter.type)
        values = [each[parameter.name] for each in arguments]
        if kind is None:
            values = [str(value) for value in values]
        columns[name] = pa.array(values, kind or pa.string())
        outputs.append(F.col(name) if kind else F.col(name).cast(parameter.type).alias(name))
    return spark.createDataFrame(pa.table(columns)).select(*outputs)


def typed_parameters(sets: DataFrame, channel: Channel) -> DataFrame:
    """As `parameter_frame`, from a frame of `id` and `arguments` that Spark reads by itself."""
    if not channel.parameters:
        return sets.select(F.col("id").cast("bigint").alias("__backend"))
    read = {
        each.name: each.type if each.type in _ARROW else "STRING" for each in channel.parameters
    }
    schema = ", ".join(f"`{name}` {kind}" for name, kind in read.items())
    values = sets.select(
        F.col("id").cast("bigint").alias("__backend"), F.from_json("arguments", schema).alias("__a")
    )
    return values.select(
        "__backend",
        *(
            F.col(f"__a.`{each.name}`").cast(each.type).alias(parameter_column(each.name))
            for each in channel.parameters
        ),
    )


def gather_facts(compiled: CompiledChannel, frame: DataFrame) -> dict[str, Any]:
    """What the query must know of all parameter sets together. One small Spark job, if any."""
    if not compiled.facts:
        return {}
    sums = ", ".join(f"{text} AS {name}" for name, text in compiled.facts)
    sql = " ".join(("SELECT", sums, "FROM __parameters AS __p"))
    row = run_sql(frame.sparkSession, sql, {"__parameters": frame}, {}).first()
    assert row is not None
    return row.asDict()


def finish_facts(gathered: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as the query takes them: never NULL, boundaries thinned."""
    facts = dict(gathered)
    if "__bounds" in facts:
        bounds, coarse = choose_bounds(msgspec.json.decode(facts["__bounds"] or "[]"))
        facts["__bounds"], facts["__coarse"] = _encode(bounds).decode(), _encode(coarse).decode()
    if "__levels" in facts:
        facts["__levels"] = facts["__levels"] or "[]"
    return {name: -1.0 if value is None else value for name, value in facts.items()}


def add_keys(compiled: CompiledChannel, frame: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """One row per key that a parameter set is found by."""
    if compiled.keys is None:
        return frame
    sql = f"SELECT *, EXPLODE({compiled.keys}) AS __key FROM __parameters AS __p"  # noqa: S608
    return run_sql(frame.sparkSession, sql, {"__parameters": frame}, facts)


def prepare(compiled: CompiledChannel, frame: DataFrame) -> Parameters:
    """A parameter table from a frame of `__backend` and typed `__p_…` columns, not cached."""
    facts = finish_facts(gather_facts(compiled, frame))
    return Parameters(add_keys(compiled, frame, facts), facts)


class ParameterTable:
    """One channel's parameter sets. `version` is -1 until the first `replace`."""

    def __init__(
        self, spark: SparkSession, compiled: CompiledChannel, *, small_rows: int = SMALL_ROWS
    ) -> None:
        self._spark = spark
        self._compiled = compiled
        self._small_rows = small_rows
        self._lock = threading.Lock()
        self._sets: dict[int, str] = {}
        self._base: DataFrame | None = None
        self._base_ids: set[int] = set()
        self._facts: dict[str, Any] = {}
        self._added: dict[int, str] = {}
        self._removed: set[int] = set()
        self._current: Parameters | None = None
        self.version = -1

    def replace(self, version: int, sets: Iterable[tuple[int, Arguments]]) -> None:
        """Begin anew with all the channel's parameter sets."""
        with self._lock:
            self._sets = {backend: _encode(arguments).decode() for backend, arguments in sets}
            self._forget_base()
            self.version = version

    def update(
        self, version: int, added: Iterable[tuple[int, Arguments]], removed: Iterable[int]
    ) -> None:
        """What came and went since `version`; what is known already does no harm."""
        with self._lock:
            for backend in removed:
                if self._sets.pop(backend, None) is not None:
                    self._current = None
                    self._added.pop(backend, None)
                    if backend in self._base_ids:
                        self._removed.add(backend)
            for backend, arguments in added:
                if backend not in self._sets:
                    self._sets[backend] = self._added[backend] = _encode(arguments).decode()
                    self._current = None
            self.version = version

    def current(self) -> Parameters | None:
        """The table as of the last change; None when there is no parameter set."""
        with self._lock:
            if not self._sets:
                self._forget_base()
                return None
            if self._current is None and len(self._sets) <= self._small_rows:
                self._current = self._small()
            if self._current is None:
                changes = len(self._added) + len(self._removed)
                if self._base is None or changes > max(
                    REBUILD_ROWS, REBUILD_FRACTION * len(self._base_ids)
                ):
                    self._rebuild()
                self._current = self._combined()
            return self._current

    def close(self) -> None:
        with self._lock:
            self._sets = {}
            self._forget_base()

    def __len__(self) -> int:
        return len(self._sets)

    def _forget_base(self) -> None:
        self._base, self._base_ids, self._current = None, set(), None
        self._added, self._removed = {}, set()

    def _small(self) -> Parameters:
        """Few sets are made anew at each change and kept on the driver."""
        self._forget_base()
        raw = parameter_frame(self._spark, self._compiled.channel, self._sets.items())
        made = prepare(self._compiled, raw)
        # Without keys it is on the driver already, but for casts that Spark's optimiser folds.
        keyed = self._compiled.keys is not None
        return Parameters(localised(made.frame) if keyed else made.frame, made.facts)

    def _rebuild(self) -> None:
        self._forget_base()
        raw = parameter_frame(self._spark, self._compiled.channel, self._sets.items())
        raw = raw.repartition(self._spark.sparkContext.defaultParallelism)
        self._facts = gather_facts(self._compiled, raw)
        # A checkpoint, not a cache: Spark looks caches up by plan, and a view of one is another
        # plan, so each run would parse every parameter set again.
        self._base = add_keys(self._compiled, raw, finish_facts(self._facts)).localCheckpoint()
        self._base_ids = set(self._sets)

    def _combined(self) -> Parameters:
        assert self._base is not None
        frame = self._base
        if self._removed:
            gone = self._spark.createDataFrame(pa.table({"__backend": sorted(self._removed)}))
            frame = frame.join(F.broadcast(gone), on="__backend", how="left_anti").select(
                *frame.columns
            )
        gathered = self._facts
        if self._added:
            raw = parameter_frame(self._spark, self._compiled.channel, self._added.items())
            gathered = _joined_facts(gathered, gather_facts(self._compiled, raw))
            frame = frame.unionByName(add_keys(self._compiled, raw, finish_facts(gathered)))
        return Parameters(frame, finish_facts(gathered))


def _joined_facts(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of two tables together. Boundaries stay: the base's keys were made with them."""
    joined = dict(base)
    for name, value in more.items():
        if name == "__levels":
            levels = {*msgspec.json.decode(base[name] or "[]"), *msgspec.json.decode(value or "[]")}
            joined[name] = _encode(sorted(levels)).decode()
        elif name.startswith("__reach"):
            joined[name] = max((x for x in (base[name], value) if x is not None), default=None)
    return joined
