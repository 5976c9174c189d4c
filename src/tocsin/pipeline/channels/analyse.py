"""Spark's verdict on a channel before it is created: names, types, and whether it can be planned.

The author's own text is analysed first, so that Spark's positions are the author's; then the
compiled query is planned over empty tables, so that what Spark cannot run is refused now. The same
is done for open parameters, when the first subscription would leave them open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tocsin.errors import InvalidInput, StatementError
from tocsin.language.tokens import tokenize
from tocsin.model import Column, Dataset, Parameter
from tocsin.pipeline.channels import near
from tocsin.pipeline.channels.compile import CompiledChannel
from tocsin.pipeline.channels.dialect import QueryText
from tocsin.pipeline.channels.matching import payloads, rows, visible
from tocsin.pipeline.channels.openings import Mask
from tocsin.pipeline.channels.parameters import parameter_frame, prepare
from tocsin.pipeline.records import spark_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLES: dict[str, Any] = {
    "BOOLEAN": True,
    "INT": 1,
    "BIGINT": 1 << 40,
    "FLOAT": 1.0,
    "DOUBLE": 1.0,
    "DECIMAL": Decimal("1.5"),
    "STRING": "",
    "TIMESTAMP": _EPOCH,
    "DATE": date(1970, 1, 1),
}


def view_schema(dataset: Dataset) -> str:
    """The columns of a dataset's view as DDL, system columns included."""
    columns = [f"`{column.name}` {spark_type(column.type)}" for column in dataset.columns]
    columns += ["`_position` BIGINT", "`_received_at` TIMESTAMP"]
    if dataset.open:
        columns.append("`_extra` MAP<STRING,STRING>")
    return ", ".join(columns)


def analyse(
    spark: SparkSession, compiled: CompiledChannel, datasets: Mapping[str, Dataset]
) -> list[Column]:
    """The columns of the channel's results; a StatementError says what Spark refuses, and where."""
    written = _as_written(spark, compiled, datasets)
    _check_names(compiled.query, written.columns)
    found = _planned(spark, compiled, frozenset())
    _check_same(compiled.query, written.schema, found.schema)
    kept = set(visible(written.columns))
    return [
        Column(field.name, field.dataType.simpleString().upper())
        for field in written.schema.fields
        if field.name in kept
    ]


def check_open(spark: SparkSession, compiled: CompiledChannel, mask: Mask) -> None:
    """Refuse what Spark cannot run with these parameters open: it would stop the whole channel."""
    try:
        _planned(spark, compiled, mask)
    except StatementError as error:
        names = sorted(mask)
        raise InvalidInput(
            f"channel {compiled.channel.name!r} cannot run with {', '.join(names)} open:"
            f" {error.message}",
            field=names[0],
            hint="give values",
        ) from None


def _planned(spark: SparkSession, compiled: CompiledChannel, mask: Mask) -> DataFrame:
    """The rows of no records and no parameter sets, planned to the end."""
    names = dict.fromkeys((*compiled.stored, *compiled.new))
    schemas = {name: view_schema(compiled.datasets[name]) for name in names}
    empty = {name: spark.createDataFrame([], schema) for name, schema in schemas.items()}
    window = (_EPOCH, _EPOCH) if compiled.uses_window else None
    try:
        parts = [
            prepare(part, parameter_frame(spark, part.parameters, []))
            for part in compiled.parts_with(mask)
        ]
        found = rows(spark, compiled, parts, empty, empty, window)
        payloads(found)._jdf.queryExecution().executedPlan()
    except PySparkException as error:
        raise _refusal(compiled.query, error) from None
    except Exception as error:  # py4j wraps what the planner throws
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        raise compiled.query.error(f"Spark cannot plan this query: {reason}", 0) from None
    return found


def _as_written(
    spark: SparkSession, compiled: CompiledChannel, datasets: Mapping[str, Dataset]
) -> DataFrame:
    """The author's query with typed example arguments, in a session of its own."""
    session = spark.newSession()
    for name in dict.fromkeys((*compiled.stored, *compiled.new)):
        session.createDataFrame([], view_schema(datasets[name])).createOrReplaceTempView(name)
    inputs = ", ".join(f"{name} DOUBLE" for name in ("a1", "o1", "a2", "o2", "km"))
    test = near.exact("a1", "o1", "a2", "o2", "km")
    session.sql(f"CREATE TEMPORARY FUNCTION near({inputs}) RETURNS BOOLEAN RETURN {test}")
    for function in ("window_start", "window_end"):
        session.sql(
            f"CREATE TEMPORARY FUNCTION {function}() RETURNS TIMESTAMP"
            " RETURN TIMESTAMP '1970-01-01 00:00:00'"
        )
    examples = {each.name: _example(each) for each in compiled.channel.parameters}
    text = _blanked(compiled.query.text)
    try:
        return session.sql(text, args=examples) if examples else session.sql(text)
    except PySparkException as error:
        raise _refusal(compiled.query, error) from None


def _example(parameter: Parameter) -> Any:
    return _EXAMPLES[parameter.type.split("(")[0]]


def _blanked(text: str) -> str:
    """The text without the word NEW before a dataset; every other character keeps its place."""
    tokens = tokenize(text)
    for before, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        named = following.text[:1].isalpha() and following.text.upper() not in ("AS", "WHERE", "ON")
        if token.text.upper() == "NEW" and before.text.upper() in ("FROM", "JOIN", ",") and named:
            text = text[: token.start] + "   " + text[token.end + 1 :]
    return text


def _check_names(query: QueryText, columns: list[str]) -> None:
    shown = [name.lower() for name in visible(columns)]
    if not shown:
        raise query.error("the result has no visible column", 0)
    for name in shown:
        if shown.count(name) > 1:
            raise query.error(
                f"two columns of the result are called {name!r}",
                0,
                field=name,
                hint="name the columns instead of *, and add an alias",
            )


def _check_same(query: QueryText, written: StructType, compiled: StructType) -> None:
    """The compiled query must answer with what the author's own would."""
    kept = {name.lower(): written[name].dataType for name in visible(written.names)}
    made = {name.lower(): compiled[name].dataType for name in visible(compiled.names)}
    for name, kind in kept.items():
        if name not in made or made[name].simpleString() != kind.simpleString():
            raise query.error(
                f"column {name!r} would change its meaning when run for all subscriptions at once",
                0,
                field=name,
                hint="write it with a CAST or another function",
            )


def _refusal(query: QueryText, error: PySparkException) -> StatementError:
    message = (error.getMessage() or str(error)).strip()
    first = re.sub(r"^\[[\w.]+\]\s*", "", message.splitlines()[0])
    first = re.sub(r"\s*SQLSTATE: \w+.*$", "", first)
    condition = error.getCondition() or ""
    offset = 0
    if isinstance(error, ParseException):
        found = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
        if found:
            lines = query.text.splitlines(keepends=True)[: int(found[1]) - 1]
            offset = sum(map(len, lines)) + int(found[2])
    elif isinstance(error, AnalysisException):
        context = error.getQueryContext()
        fragment = context[0].fragment() if context else ""
        if context and query.text[context[0].startIndex() :].startswith(fragment[:20]):
            offset = context[0].startIndex()
    if "outer" in message or condition.startswith("UNSUPPORTED_SUBQUERY") or "__p" in first:
        if "NON_DETERMINISTIC" not in condition:
            first = (
                "Spark cannot run this for all parameter sets at once: a parameter is used in a"
                " subquery, a limit or a group that may not look outside"
            )
        offset = _first_parameter(query.text) if offset == 0 else offset
    return query.error(first, offset)


def _first_parameter(text: str) -> int:
    tokens = tokenize(text)
    for token in tokens:
        if token.text == ":":
            return int(token.start)
    return 0
