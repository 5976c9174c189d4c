"""Queries that Spark plans once, and that are asked again and again with other rows.

The tables of a standing query are blocks of Spark's own block manager: a run puts its rows there
and starts the same job again, without analysing, optimising or compiling anything. That holds only
for what keeps nothing from one job to the next, so a plan must have neither shuffle nor broadcast:
each table is one partition, and whatever is joined or grouped is so in one task.

Knows nothing of runs. One use of a standing query at a time, which is the caller's to see to.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.spark.channels import CompiledChannel, Parameters, match
from tocsin.spark.channels.parameters import PartParameters
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
_LASTING = re.compile(r"Exchange|Subquery|Broadcast|InMemory|Python|Arrow")
"""Nodes of a plan that keep what they computed, or that run elsewhere."""
_HINT = re.compile(r"\A((?:SELECT \* FROM \()?SELECT /\*\+ )BROADCAST\(")

_numbers = itertools.count()


class NotStanding(Exception):
    """The query cannot be asked in this way."""


def standing_session(spark: SparkSession) -> SparkSession:
    """The session in which standing queries are planned."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def refuse_lasting(execution: Any) -> None:
    """NotStanding: its plan keeps something from one job to the next."""
    if _LASTING.search(execution.executedPlan().toString()):
        raise NotStanding


class StandingQuery:
    """`number` tells its rows from those of others. The tables that it is made with say what kind
    of rows it takes."""

    def __init__(
        self,
        session: SparkSession,
        compiled: CompiledChannel,
        parameters: Parameters,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> None:
        self.number = next(_numbers)
        self.compiled = compiled
        self.facts = _facts(parameters)
        self.is_tried = False  # it has answered once
        self._tables: dict[object, FilledTable] = {}
        frames: dict[object, DataFrame] = {}
        for key, frame in _given(parameters, stored, new):
            self._tables[key] = FilledTable(session, frame)
            frames[key] = self._tables[key].frame
        planned = match(
            session,
            compiled,
            _over(parameters, frames),
            {name: frames["stored", name] for name in stored},
            {name: frames["new", name] for name in new},
        ).select(F.lit(self.number).cast("bigint").alias(MEMBER), "*")
        execution = planned._jdf.queryExecution()
        refuse_lasting(execution)
        self.schema: Any = planned._jdf.schema()
        self.rdd: Any = execution.toRdd()

    def serves(self, compiled: CompiledChannel, parameters: Parameters) -> bool:
        """Whether it is still the query to ask: facts about all parameter sets are part of it."""
        return self.compiled is compiled and self.facts == _facts(parameters)

    def fill(
        self,
        parameters: Parameters,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> None:
        """What the next job is about. NotStanding: Spark's driver has not all the rows."""
        for key, frame in _given(parameters, stored, new):
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
    parameters: Parameters, stored: Mapping[str, DataFrame], new: Mapping[str, DataFrame]
) -> Iterator[tuple[object, DataFrame]]:
    """Every table that the query reads, by what it is."""
    for mask, parts in parameters.by_mask.items():
        for number, part in enumerate(parts):
            yield (mask, number), part.frame
    for name, frame in stored.items():
        yield ("stored", name), frame
    for name, frame in new.items():
        yield ("new", name), frame


def _facts(parameters: Parameters) -> dict[object, Any]:
    return {mask: [part.facts for part in parts] for mask, parts in parameters.by_mask.items()}


def _over(parameters: Parameters, frames: Mapping[object, DataFrame]) -> Parameters:
    """The same over other frames. Where a side was to be sent to all tasks, there is one task."""
    return Parameters(
        {
            mask: tuple(
                PartParameters(
                    msgspec.structs.replace(
                        given.part, sql=_HINT.sub(r"\1SHUFFLE_HASH(", given.part.sql)
                    ),
                    frames[mask, number],
                    given.facts,
                )
                for number, given in enumerate(parts)
            )
            for mask, parts in parameters.by_mask.items()
        }
    )
