"""One draw: the channel as compiled, beside the author's query with each set's arguments in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.errors import InvalidInput, TocsinError
from tocsin.model import ANY, Arguments
from tocsin.spark.channels import (
    CompiledChannel,
    Parameters,
    ParameterTable,
    analyse,
    check_open,
    compile_channel,
    mask_of,
    match,
    near,
    settle,
)
from tocsin.spark.channels.matching import as_json
from tocsin.spark.failures import Blame, blame
from tocsin.spark.local import SMALL_ROWS, localised
from tocsin.spark.records import schema_of
from tocsin.spark.shared_jobs import SharedJobs
from tocsin.spark.standing import NotStanding, StandingQuery, standing_session
from tocsin.sql import bind_arguments, parse_one
from tocsin.sql.statements import CreateChannel

from .data import DATASETS, PARAMETERS, arguments, lines
from .queries import CLOSE, OPEN, Asked, draw_query

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Rows are few, and each query is asked once: generating code for it would take longer."""
VARIANTS = 12
SETS = 3
_PARAMETER = re.compile(r":([A-Za-z]\w*)")
_BETWEEN = re.compile(r"(\S+) BETWEEN (.+) AND (:\w+)")


@dataclass(frozen=True)
class Outcome:
    """`refusal` is what the author was told; `difference` is empty when both agree."""

    seed: int
    asked: Asked
    refusal: str = ""
    difference: str = ""
    rows: int = 0
    opened: int = 0
    form: str = ""
    stands: bool = False  # it was asked as a standing query


@dataclass
class Laboratory:
    """A Spark session with the variants of data, each made once."""

    spark: SparkSession
    made: dict[int, tuple[SparkSession, dict[str, DataFrame]]] = field(default_factory=dict)
    jobs: SharedJobs | None = None

    def variant(self, number: int) -> tuple[SparkSession, dict[str, DataFrame]]:
        """A session in which datasets are views, for the author's text; and the views."""
        if number not in self.made:
            draw = Random(number)
            session = self.spark.newSession()
            for setting, value in INTERPRETED.items():
                session.conf.set(setting, value)
            frames = {}
            for name, dataset in DATASETS.items():
                text = lines(draw, dataset, 8 if name == "reports" else 5)
                raw = self.spark.createDataFrame(pa.table({"line": pa.array(text, pa.string())}))
                parsed = raw.select(F.from_json("line", schema_of(dataset)).alias("r"))
                frames[name] = localised(parsed.select("r.*"))
                data = localised(parsed.select("r.*"), session)
                data.createOrReplaceTempView(name)
            inputs = ", ".join(f"{name} DOUBLE" for name in ("a1", "o1", "a2", "o2", "km"))
            test = near.exact("a1", "o1", "a2", "o2", "km")
            session.sql(f"CREATE TEMPORARY FUNCTION near({inputs}) RETURNS BOOLEAN RETURN {test}")
            self.made[number] = session, frames
        return self.made[number]

    def run(self, seed: int) -> Outcome:
        query = draw_query(seed)
        return self.compare(seed, query)

    def compare(self, seed: int, query: Asked) -> Outcome:
        draw = Random(-seed - 1)
        used = {name.lower() for name in _PARAMETER.findall(query.text)}
        declared = ", ".join(f"{n} {kind}" for n, kind in PARAMETERS.items() if n.lower() in used)
        statement = f"CREATE CONTINUOUS CHANNEL c({declared}) AS {query.text}"
        try:
            created = parse_one(statement)
            assert isinstance(created, CreateChannel)
            compiled = compile_channel(created, DATASETS)
            columns = [column.name for column in analyse(self.spark, compiled, DATASETS)]
        except TocsinError as error:
            return Outcome(seed, query, refusal=str(error))
        session, frames = self.variant(draw.randrange(VARIANTS))
        sets = self.sets(draw, compiled, openable=OPEN in query.marked)
        try:
            expected = self.expected(session, query, sets, columns)
        except PySparkException:  # the author's own query fails with these arguments
            return Outcome(seed, query, refusal="", form="not comparable")
        # A table is large or small; many sets of one last from run to run.
        small_rows = 0 if seed % 4 == 1 else SMALL_ROWS
        table = ParameterTable(self.spark, compiled, small_rows=small_rows)
        table.replace(1, sets.items())
        parameters = table.current()
        assert parameters is not None
        got: dict[int, list[str]] = {backend: [] for backend in sets}
        stands = False
        try:
            matches = None
            if seed % 2:
                matches = self.standing_rows(draw, compiled, parameters, frames)
            stands = matches is not None
            if matches is None:
                matches = match(self.spark, compiled, parameters, frames, frames).toArrow()
        except Exception as error:
            if blame(error) is not Blame.QUERY:
                raise
            return Outcome(seed, query, difference=f"it fails, and the query does not: {error}")
        for row in sorted(matches.to_pylist(), key=lambda row: row["__order"]):
            got[row["__backend"]].append(row["payload"])
        table.close()
        form = compiled.describe()[0][1]
        opened = sum(bool(mask_of(arguments)) for arguments in sets.values())
        rows = sum(map(len, expected.values()))
        difference = _difference(query, sets, expected, got)
        return Outcome(seed, query, "", difference, rows, opened, form, stands)

    def standing_rows(
        self,
        draw: Random,
        compiled: CompiledChannel,
        parameters: Parameters,
        frames: dict[str, DataFrame],
    ) -> pa.Table | None:
        """The same from a query that stands, and was asked of other records before; None: it cannot
        be asked so."""
        _, others = self.variant(draw.randrange(VARIANTS))
        stored = {name: others[name] for name in compiled.stored}
        new = {name: others[name] for name in compiled.new}
        if self.jobs is None:
            self.jobs = SharedJobs(standing_session(self.spark))
        try:
            queries = [
                StandingQuery(self.jobs.session, compiled, layer, stored, new)
                for layer in parameters.layers
            ]
        except NotStanding:
            return None
        self._fill(queries, parameters, stored, new)
        self.jobs.ask(queries, 60.0)
        stored = {name: frames[name] for name in compiled.stored}
        self._fill(queries, parameters, stored, {name: frames[name] for name in compiled.new})
        rows = self.jobs.ask(queries, 60.0)
        for query in queries:
            query.close()
        return pa.concat_tables(rows)

    def _fill(
        self,
        queries: Sequence[StandingQuery],
        parameters: Parameters,
        stored: dict[str, DataFrame],
        new: dict[str, DataFrame],
    ) -> None:
        for query, layer in zip(queries, parameters.layers, strict=True):
            query.fill(layer, stored, new)

    def sets(
        self, draw: Random, compiled: CompiledChannel, *, openable: bool
    ) -> dict[int, Arguments]:
        """A few parameter sets, of which some leave open what they may."""
        names = {parameter.name for parameter in compiled.channel.parameters}
        sets_by_number: dict[int, Arguments] = {}
        for backend in range(SETS):
            given: Arguments = {n: v for n, v in arguments(draw).items() if n in names}
            bound = bind_arguments(compiled.channel, given)
            if openable and backend and bound and draw.random() < 0.5:
                opened = bound | {draw.choice(sorted(bound)): dict(ANY)}
                try:
                    bound = settle(compiled.channel, opened)
                    check_open(self.spark, compiled, mask_of(bound))
                except InvalidInput:
                    bound = bind_arguments(compiled.channel, given)
            sets_by_number[backend] = bound
        return sets_by_number

    def expected(
        self,
        session: SparkSession,
        query: Asked,
        sets: dict[int, Arguments],
        columns: list[str],
    ) -> dict[int, list[str]]:
        """What the author's query says with the arguments of each set written into it."""
        texts = {backend: _written(query, given) for backend, given in sets.items()}
        answers: dict[int, list[str]] = {backend: [] for backend in sets}
        if query.ordered:
            for backend, text in texts.items():
                frame = session.sql(text)
                rows = frame.select(as_json(frame, columns).alias("payload")).collect()
                answers[backend] = [row["payload"] for row in rows]
            return answers
        frames = []
        for backend, text in texts.items():
            frame = session.sql(text)
            payload = as_json(frame, columns).alias("payload")
            frames.append(frame.select(F.lit(backend).alias("backend"), payload))
        union = frames[0]
        for frame in frames[1:]:
            union = union.unionAll(frame)
        for row in union.collect():
            answers[row["backend"]].append(row["payload"])
        return answers


def _written(query: Asked, given: Arguments) -> str:
    """The author's text with arguments for parameters, without the conditions of open ones."""
    opened = {name.lower() for name in mask_of(given)}
    values = {name.lower(): value for name, value in given.items()}
    kinds = {name.lower(): kind for name, kind in PARAMETERS.items()}

    def kept(match_: re.Match[str]) -> str:
        text = match_.group(1)
        if not _names(text) & opened:
            return text
        halves = _BETWEEN.fullmatch(text)
        if halves is None:
            return "true"
        value, low, high = halves.groups()
        sides = [f"{value} >= {low}", f"{value} <= {high}"]
        return " AND ".join(side for side in sides if not _names(side) & opened) or "true"

    def literal(match_: re.Match[str]) -> str:
        name = match_.group(1).lower()
        return _literal(values[name], kinds[name])

    text = re.sub(f"{OPEN}([^{CLOSE}]*){CLOSE}", kept, query.marked)
    return _PARAMETER.sub(literal, text.replace("NEW reports", "reports"))


def _names(text: str) -> set[str]:
    return {name.lower() for name in _PARAMETER.findall(text)}


def _literal(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {kind})"


def _difference(
    query: Asked,
    sets: dict[int, Arguments],
    expected: dict[int, list[str]],
    got: dict[int, list[str]],
) -> str:
    for backend, given in sets.items():
        want, have = expected[backend], got[backend]
        same = want == have if query.ordered else Counter(want) == Counter(have)
        if not same:
            lacking, more = Counter(want) - Counter(have), Counter(have) - Counter(want)
            difference = "in another order" if not lacking and not more else ""
            return (
                f"{difference} with {json.dumps(given)}:\n  the query says {len(want)} rows:"
                f" {want[:4]}\n  the channel says {len(have)}: {have[:4]}\n"
                f"  lacking {list(lacking.elements())[:3]}, too many {list(more.elements())[:3]}"
            )
    return ""
