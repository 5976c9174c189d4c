"""Spark's verdict on a channel before it is created: names, types, and whether it can be planned.

The author's own text is analysed first, so that Spark's positions are the author's; then the
compiled query is planned over empty tables, so that what Spark cannot run is refused now. The same
is done for open parameters, when the first subscription would leave them open.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from tocsin.errors import InvalidInput, StatementError
from tocsin.model import Column, Dataset
from tocsin.spark.channels import near
from tocsin.spark.channels.argument_columns import columns_of
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.dialect import QueryText
from tocsin.spark.channels.matching import payloads, rows, visible
from tocsin.spark.channels.openings import Mask
from tocsin.spark.channels.parameters import prepare, typed_frame
from tocsin.spark.channels.refusals import refused_as_compiled, refused_as_written
from tocsin.spark.channels.spark_reading import check_names, check_reading
from tocsin.spark.records import schema_of
from tocsin.sql.tokens import tokenize

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


def analyse(
    spark: SparkSession, compiled: CompiledChannel, datasets: Mapping[str, Dataset]
) -> list[Column]:
    """The columns of the channel's results; a StatementError says what Spark refuses, and where."""
    written = _as_written(spark, compiled, datasets)
    _check_names(compiled.query, written.columns)
    planned = _planned(spark, compiled, frozenset())
    if _changed(written.schema, planned.schema):
        # A literal may be narrower than its declared type: what counts is the type.
        typed = _as_written(spark, compiled, datasets, typed=True)
        for name in _changed(typed.schema, planned.schema):
            raise compiled.query.error(
                f"column {name!r} would change its meaning when run for all subscriptions at once",
                0,
                field=name,
                hint="write it with a CAST or another function",
            )
        written = typed
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
        names = [
            parameter.name
            for parameter in compiled.channel.parameters
            if parameter.name.lower() in mask
        ]
        raise InvalidInput(
            f"channel {compiled.channel.name!r} cannot run with {', '.join(names)} open:"
            f" {error.message}",
            field=names[0],
            hint="give values",
        ) from None


def _planned(spark: SparkSession, compiled: CompiledChannel, mask: Mask) -> DataFrame:
    """The rows of no records and no parameter sets, planned to the end."""
    names = dict.fromkeys((*compiled.stored, *compiled.new))
    schemas = {name: schema_of(compiled.datasets[name]) for name in names}
    empty = {name: spark.createDataFrame([], schema) for name, schema in schemas.items()}
    window = (_EPOCH, _EPOCH) if compiled.uses_window else None
    try:
        parts = [
            prepare(part, typed_frame(spark, part.parameters, columns_of(part.parameters, (), ())))
            for part in compiled.parts_with(mask)
        ]
        planned = rows(spark, compiled, parts, empty, empty, window)
        payloads(planned)._jdf.queryExecution().executedPlan()
    except (PySparkException, Py4JError) as error:
        raise refused_as_compiled(compiled.query, error) from None
    return planned


def _as_written(
    spark: SparkSession,
    compiled: CompiledChannel,
    datasets: Mapping[str, Dataset],
    *,
    typed: bool = False,
) -> DataFrame:
    """The author's query with example arguments, in a session of its own. `typed`: exactly of their
    declared types, but then positions are not the author's."""
    session = spark.newSession()
    for name in dict.fromkeys((*compiled.stored, *compiled.new)):
        session.createDataFrame([], schema_of(datasets[name])).createOrReplaceTempView(name)
    inputs = ", ".join(f"{name} DOUBLE" for name in ("a1", "o1", "a2", "o2", "km"))
    test = near.exact("a1", "o1", "a2", "o2", "km")
    session.sql(f"CREATE TEMPORARY FUNCTION near({inputs}) RETURNS BOOLEAN RETURN {test}")
    for function in ("window_start", "window_end"):
        session.sql(
            f"CREATE TEMPORARY FUNCTION {function}() RETURNS TIMESTAMP"
            " RETURN TIMESTAMP '1970-01-01 00:00:00'"
        )
    session.sql("CREATE TEMPORARY FUNCTION current_subscriber() RETURNS STRING RETURN ''")
    examples = {} if typed else _examples(compiled)
    text = _blanked(compiled.query.text)
    if typed:
        text = _with_types(text, compiled)
    try:
        check_reading(session, text)
        written = session.sql(text, args=examples) if examples else session.sql(text)
    except (PySparkException, Py4JError) as error:
        raise refused_as_written(compiled.query, error) from None
    check_names(compiled.query, written, channel=True)
    return written


def _examples(compiled: CompiledChannel) -> dict[str, Any]:
    """An argument for each parameter as the query writes it: Spark minds capitals there."""
    types = {
        parameter.name.lower(): parameter.type.split("(")[0]
        for parameter in compiled.channel.parameters
    }
    written = {node.name for tree in compiled.trees for node in tree.find_all(exp.Placeholder)}
    return {name: _EXAMPLES[types[name.lower()]] for name in written if name.lower() in types}


def _with_types(text: str, compiled: CompiledChannel) -> str:
    """Every `:parameter` as a value of its type."""
    types = {parameter.name.lower(): parameter.type for parameter in compiled.channel.parameters}
    tokens = tokenize(text)
    for colon, name in reversed([*pairwise(tokens)]):
        kind = types.get(name.text.lower())
        if colon.text == ":" and colon.end + 1 == name.start and kind:
            text = f"{text[: colon.start]}CAST(NULL AS {kind}){text[name.end + 1 :]}"
    return text


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


def _changed(written: StructType, compiled: StructType) -> list[str]:
    """The columns that the compiled query would answer with otherwise than the author's own."""
    types = {name.lower(): compiled[name].dataType for name in visible(compiled.names)}
    kept = {name: types.get(name.lower()) for name in visible(written.names)}
    return [
        name
        for name, kind in kept.items()
        if kind is None or kind.simpleString() != written[name].dataType.simpleString()
    ]
