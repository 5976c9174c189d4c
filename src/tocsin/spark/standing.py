"""Queries that Spark plans once, and that are asked again and again with other rows.

The tables of a standing query are blocks of Spark's own block manager: a run puts its rows there
and starts the same job again, without analysing, optimising or compiling anything. That holds only
for what keeps nothing of these rows from one job to the next, so a plan must have neither shuffle
nor broadcast of them: each table is one partition, and whatever is joined or grouped is so in one
task. Many parameter sets that stay the same for long are the exception: their hash table is made
once, with the query, and not in each run.

Knows nothing of runs. One use of a standing query at a time, which is the caller's to see to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.spark.channels import CompiledChannel, Parameters, match
from tocsin.spark.channels.parameters import ByMask, Layer, PartParameters
from tocsin.spark.channels.query import PARAMETERS
from tocsin.spark.local import framed, local_relation, row_tag, scan

MEMBER = "__member"  # BIGINT: which standing query a row is of
_SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
    # Rows are few, and one interpreter is warm for all queries: a class for each is compiled, sent
    # to tasks as text and warmed up, which takes longer than the rows ever do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_STREAM = 7_000_000  # of our blocks' names; those of Spark's own streams count from 0
_LASTING = re.compile(r"Exchange|Subquery|InMemory|Python|Arrow")
"""Nodes of a plan that keep what they computed, or that run elsewhere."""
_KEEPING = re.compile(f"{_LASTING.pattern}|Broadcast")
_SHUFFLE, _BROADCAST, _SCAN = "Exchange", "BroadcastExchange", "Scan ExistingRDD"
_TABLES = r"(?:[^`)]|`[^`]*`)*"
_HINT = re.compile(rf"\A((?:SELECT \* FROM \()?SELECT) (?:/\*\+ BROADCAST\(({_TABLES})\) \*/ )?")  # noqa: S608
"""How the text of a part begins, and which tables it wants sent to the others."""

_numbers = itertools.count()


class NotStanding(Exception):
    """The query cannot be asked in this way."""


def standing_session(spark: SparkSession) -> SparkSession:
    """The session in which standing queries are planned."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def refuse_lasting(plan: Any, filled: Collection[FilledTable] = ()) -> None:
    """NotStanding: it keeps something of these tables from one job to the next."""
    if not _KEEPING.search(plan.toString()):
        return
    rdds = {table.rdd_id for table in filled}
    plans = [plan]
    while plans:
        plan = plans.pop()
        name = str(plan.nodeName())
        if name == _BROADCAST and filled:
            if rdds & _read_by(plan):
                raise NotStanding
        elif _LASTING.search(name) or plan.subqueries().nonEmpty():
            raise NotStanding
        else:
            plans += _listed(plan.children())


def without_shuffles(session: SparkSession, plan: Any) -> Any:
    """The same without shuffles into one partition: there is but one task anyway, and Spark does
    not see everywhere that what it joined before is in one partition already."""
    if _SHUFFLE not in plan.toString():
        return plan
    jvm: Any = session._jvm
    children = [without_shuffles(session, child) for child in _listed(plan.children())]
    if plan.nodeName() == _SHUFFLE and plan.outputPartitioning().numPartitions() == 1:
        return jvm.org.apache.spark.sql.execution.CoalesceExec(1, children[0])
    return plan.withNewChildren(jvm.PythonUtils.toSeq(children))


def executed(session: SparkSession, plan: Any) -> Any:
    """Its rows, as Spark itself would ask for them."""
    jvm: Any = session._jvm
    conf = session._jsparkSession.sessionState().conf()
    return jvm.org.apache.spark.sql.execution.SQLExecutionRDD(plan.execute(), conf)


def _read_by(plan: Any) -> set[int]:
    """The RDDs that a plan scans."""
    scans = (leaf for leaf in _listed(plan.collectLeaves()) if leaf.nodeName() == _SCAN)
    return {int(scan.rdd().id()) for scan in scans}


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.length())]


class StandingQuery:
    """Of one layer of a channel's parameter sets. `number` tells its rows from those of others. The
    tables that it is made with say what kind of rows it takes."""

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledChannel,
        layer: Layer,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> None:
        self.number = next(_numbers)
        self.compiled = compiled
        self.is_tried = False  # it has answered once
        self._made_with = layer
        self._tables: dict[object, FilledTable] = {}
        frames: dict[object, DataFrame] = dict(_lasting(layer))
        for key, frame in _given(layer, stored, new):
            self._tables[key] = FilledTable(session, frame)
            frames[key] = self._tables[key].frame
        planned = match(
            session,
            compiled,
            Parameters.of(_over(layer, frames)),
            {name: frames["stored", name] for name in stored},
            {name: frames["new", name] for name in new},
        ).select(F.lit(self.number).cast("bigint").alias(MEMBER), "*")
        plan = planned._jdf.queryExecution().executedPlan()
        if not layer.lasts:
            plan = without_shuffles(session, plan)
        refuse_lasting(plan, self._tables.values() if layer.lasts else ())
        self.schema: Any = planned._jdf.schema()
        self.rdd: Any = executed(session, plan)

    def serves(self, compiled: CompiledChannel, layer: Layer) -> bool:
        """Whether it is still the query to ask: facts about all parameter sets are part of it, and
        those that last themselves."""
        made_with = self._made_with
        return (
            self.compiled is compiled
            and made_with.lasts == layer.lasts
            and _facts(made_with) == _facts(layer)
            and all(
                there is here
                for (_, there), (_, here) in zip(_lasting(made_with), _lasting(layer), strict=True)
            )
        )

    def fill(
        self,
        layer: Layer,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> None:
        """What the next job is about. NotStanding: Spark's driver has not all the rows."""
        for key, frame in _given(layer, stored, new):
            self._tables[key].fill(frame)

    def close(self) -> None:
        """May wait until a job of it has ended."""
        for table in self._tables.values():
            table.close()


class FilledTable:
    """Rows as a frame of one partition that is read when a job runs."""

    def __init__(self, session: SparkSession, like: DataFrame) -> None:
        context: Any = session.sparkContext
        # Elsewhere tasks do not see the driver's blocks.
        relation = local_relation(like) if context._jsc.sc().isLocal() else None
        if relation is None:
            raise NotStanding
        jvm: Any = session._jvm
        self._blocks = jvm.org.apache.spark.SparkEnv.get().blockManager()
        self._level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
        self._tag = row_tag(session)
        self._id = jvm.org.apache.spark.storage.StreamBlockId(_STREAM, next(_numbers))
        ids = context._gateway.new_array(jvm.org.apache.spark.storage.BlockId, 1)
        ids[0] = self._id
        rdd = jvm.org.apache.spark.rdd.BlockRDD(context._jsc.sc(), ids, self._tag)
        self.rdd_id = int(rdd.id())
        self.frame = framed(session, scan(session, relation.schema().asNullable(), rdd))
        self._filled: DataFrame | None = None

    def fill(self, frame: DataFrame) -> None:
        if frame is self._filled:
            return
        relation = local_relation(frame)
        if relation is None:
            raise NotStanding
        self.close()
        rows = relation.data().iterator()
        if not self._blocks.putIterator(self._id, rows, self._level, False, self._tag):
            raise NotStanding  # there is no room
        self._filled = frame

    def close(self) -> None:
        self._filled = None
        self._blocks.removeBlock(self._id, False)


def _given(
    layer: Layer, stored: Mapping[str, DataFrame], new: Mapping[str, DataFrame]
) -> Iterator[tuple[object, DataFrame]]:
    """Every table that is filled for each run, by what it is."""
    if not layer.lasts:
        yield from _parameters(layer)
    for name, frame in stored.items():
        yield ("stored", name), frame
    for name, frame in new.items():
        yield ("new", name), frame


def _lasting(layer: Layer) -> Iterator[tuple[object, DataFrame]]:
    """Every table that is the same in each run."""
    return _parameters(layer) if layer.lasts else iter(())


def _parameters(layer: Layer) -> Iterator[tuple[object, DataFrame]]:
    for mask, parts in layer.by_mask.items():
        for number, part in enumerate(parts):
            yield (mask, number), part.frame


def _facts(layer: Layer) -> dict[object, Any]:
    return {mask: [part.facts for part in parts] for mask, parts in layer.by_mask.items()}


def _over(layer: Layer, frames: Mapping[object, DataFrame]) -> ByMask:
    """The same over other frames. Where one side is to be sent to all tasks, it is the side that
    lasts; if none does, there is but one task."""

    def hinted(sql: str) -> str:
        if layer.lasts:
            return _HINT.sub(rf"\1 /*+ BROADCAST({PARAMETERS}) */ ", sql)
        return _HINT.sub(lambda hint: _shuffled(hint[1], hint[2]), sql)

    return {
        mask: tuple(
            PartParameters(
                msgspec.structs.replace(given.part, sql=hinted(given.part.sql)),
                frames[mask, number],
                given.facts,
            )
            for number, given in enumerate(parts)
        )
        for mask, parts in layer.by_mask.items()
    }


def _shuffled(beginning: str, tables: str | None) -> str:
    return f"{beginning} /*+ SHUFFLE_HASH({tables}) */ " if tables else f"{beginning} "
