"""Are a subscription's arguments such that the channel's query can compute with them?

A comparison takes any value; a pattern, a format or a position may be one that Spark refuses when
it meets the first record. Such expressions are evaluated once with the arguments, over made-up
values of the columns they name, when the subscription is made, so that whoever gave the argument
gets the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession
from sqlglot import exp

from tocsin.errors import InvalidInput
from tocsin.model import Arguments, Parameter
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.dialect import snippet, to_spark
from tocsin.spark.channels.openings import mask_of, without
from tocsin.spark.channels.query import is_near, is_run_value
from tocsin.spark.failures import Blame, blame, reason
from tocsin.spark.records import spark_type

_EXAMPLES = {
    "BOOLEAN": "true", "INT": "1", "BIGINT": "1", "FLOAT": "1", "DOUBLE": "1", "DECIMAL": "1",
    "STRING": "'a'", "TIMESTAMP": "'1970-01-01 00:00:00'", "DATE": "'1970-01-01'",
    "ARRAY": "array(NULL)",
}  # fmt: skip
_PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Bracket)
_NOT_ALONE = (exp.Query, exp.AggFunc, exp.Window, exp.Lambda, exp.Star)


def try_arguments(spark: SparkSession, compiled: CompiledChannel, arguments: Arguments) -> None:
    """Raises InvalidInput when an expression of the query cannot be computed with them."""
    declared = {parameter.name.lower(): parameter for parameter in compiled.channel.parameters}
    for expression in _risky(compiled, arguments):
        names = sorted(
            {placeholder.name.lower() for placeholder in expression.find_all(exp.Placeholder)}
        )
        text = to_spark(_typed(expression, declared))
        given = {name: arguments[declared[name].name] for name in names}
        try:
            values = {name: _value(value) for name, value in given.items()}
            spark.sql(f"SELECT {text} AS tried", args=values).collect()
        except Exception as error:
            if blame(error) not in (Blame.QUERY, Blame.MEMORY):
                return  # it could not be tried: a run will show it
            raise InvalidInput(
                f"channel {compiled.channel.name!r} cannot compute with"
                f" {', '.join(f'{declared[name].name} = {given[name]!r}' for name in names)}:"
                f" {reason(error)}",
                field=declared[names[0]].name,
                hint="give another value",
            ) from None


def _risky(compiled: CompiledChannel, arguments: Arguments) -> Iterator[exp.Expr]:
    mask = mask_of(arguments)
    seen: set[str] = set()
    for tree in compiled.trees:
        columns = _column_types(tree, compiled)
        for placeholder in without(tree, mask, compiled.always_given).find_all(exp.Placeholder):
            if is_run_value(placeholder):
                continue
            expression = _expression(placeholder)
            example = None if expression is None else _with_examples(expression, columns)
            if example is not None and (text := example.sql()) not in seen:
                seen.add(text)
                yield example


def _expression(placeholder: exp.Expr) -> exp.Expr | None:
    """The largest expression around a parameter that may refuse its value, if any."""
    node, expression = placeholder, None
    while node.parent is not None and not isinstance(node.parent, exp.Query):
        node = node.parent
        if isinstance(node, _NOT_ALONE):
            break
        if isinstance(node, exp.Connector | exp.Join | exp.Where | exp.Alias):
            continue
        if isinstance(node, _PATTERNS) or (isinstance(node, exp.Func) and not is_near(node)):
            expression = node
    return expression


def _column_types(tree: exp.Expr, compiled: CompiledChannel) -> dict[tuple[str, str], str]:
    """By alias and name, and by name alone."""
    types: dict[tuple[str, str], str] = {}
    for table in tree.find_all(exp.Table):
        dataset = compiled.datasets.get(str(table.meta.get("dataset", "")))
        for column in dataset.columns if dataset is not None else ():
            for alias in (table.alias.lower(), ""):
                types[alias, column.name.lower()] = column.type
    return types


def _with_examples(expression: exp.Expr, columns: Mapping[tuple[str, str], str]) -> exp.Expr | None:
    """A copy in which made-up values stand for columns; None if there is one that nobody knows."""
    copy = expression.copy()
    if any(isinstance(node, _NOT_ALONE) for node in copy.walk()):
        return None
    for column in list(copy.find_all(exp.Column)):
        kind = columns.get((column.table.lower(), column.name.lower()))
        if kind is None:
            return None
        value = _EXAMPLES.get(re.split("[(<]", kind)[0], "NULL")
        example = snippet(f"CAST({value} AS {spark_type(kind)})")
        if column is copy:
            return None
        column.replace(example)
    return copy


def _typed(expression: exp.Expr, types: Mapping[str, Parameter]) -> exp.Expr:
    copy = expression.copy()
    for placeholder in list(copy.find_all(exp.Placeholder)):
        name = placeholder.name.lower()
        placeholder.replace(snippet(f"CAST(:{name} AS {types[name].type})"))
    return copy


def _value(argument: object) -> object:
    return argument if isinstance(argument, bool | int | float | str) else str(argument)
