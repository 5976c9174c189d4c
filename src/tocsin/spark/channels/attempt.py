"""Are a subscription's arguments such that the channel's query can compute with them?

A comparison takes any value; a pattern, a format or a position may be one that Spark refuses when
it meets the first record. Such expressions are evaluated once with the arguments, over made-up
values of the columns they name, when the subscription is made, so that whoever gave the argument
gets the error. Most channels have none, and most values come again: then nothing is asked of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp

from tocsin.errors import InvalidInput
from tocsin.model import Arguments, Parameter
from tocsin.spark.channels.argument_columns import ARROW
from tocsin.spark.channels.compile import CompiledChannel
from tocsin.spark.channels.dialect import snippet, to_spark
from tocsin.spark.channels.openings import Mask, mask_of, without
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


MOST_KNOWN = 10_000
"""Values that are remembered to be fine, of one channel."""


class _Risky(NamedTuple):
    """An expression of the query, over made-up values, and the parameters that it names."""

    expression: exp.Expr
    parameters: tuple[Parameter, ...]

    def values(self, arguments: Arguments) -> tuple[Any, ...]:
        return tuple(arguments[parameter.name] for parameter in self.parameters)

    def text(self, placeholder: str) -> str:
        """As Spark reads it, with something like `placeholder` in the place of parameters."""
        copy = self.expression.copy()
        kinds = {parameter.name.lower(): parameter.type for parameter in self.parameters}
        for node in list(copy.find_all(exp.Placeholder)):
            name = node.name.lower()
            node.replace(snippet(f"CAST({placeholder.format(name)} AS {kinds[name]})"))
        return to_spark(copy)


class Trials:
    """Of one channel. What is risky depends on which parameters are open, and is found once; what
    Spark computed with once is not tried again. Thread-safe, as far as it matters: two may try the
    same."""

    def __init__(self, compiled: CompiledChannel) -> None:
        self.compiled = compiled
        self._risky: dict[Mask, list[_Risky]] = {}
        self._fine: dict[tuple[int, tuple[Any, ...]], None] = {}  # by expression

    def vouches(self, arguments: Arguments) -> bool:
        """Whether the query can compute with them, as far as is known without asking Spark."""
        expressions = self._risky.get(mask_of(arguments))
        return expressions is not None and all(
            (id(risky.expression), risky.values(arguments)) in self._fine for risky in expressions
        )

    def first_refused(
        self, spark: SparkSession, sets: Sequence[Arguments]
    ) -> tuple[int, InvalidInput] | None:
        """The first of them that an expression of the query cannot compute with, and why."""
        untried: dict[int, tuple[_Risky, dict[tuple[Any, ...], int]]] = {}
        for place, arguments in enumerate(sets):
            for risky in self._of(mask_of(arguments)):
                values = risky.values(arguments)
                if (id(risky.expression), values) not in self._fine:
                    _, places = untried.setdefault(id(risky.expression), (risky, {}))
                    places.setdefault(values, place)
        refused = [
            (places[values], error)
            for risky, places in untried.values()
            for values, error in [self._try(spark, risky, list(places))]
            if error is not None
        ]
        return min(refused, key=lambda refusal: refusal[0], default=None)

    def _of(self, mask: Mask) -> list[_Risky]:
        if mask not in self._risky:
            self._risky[mask] = list(_risky(self.compiled, mask))
        return self._risky[mask]

    def _try(
        self, spark: SparkSession, risky: _Risky, values: Sequence[tuple[Any, ...]]
    ) -> tuple[tuple[Any, ...], InvalidInput | None]:
        """All at once; if that fails, by halves. The first that is refused."""
        try:
            if len(values) == 1:
                _try_one(spark, risky, values[0])
            else:
                _try_many(spark, risky, values)
        except Exception as error:
            if blame(error) not in (Blame.QUERY, Blame.MEMORY):
                return values[0], None  # it could not be tried: a run will show it
            if len(values) == 1:
                return values[0], self._refusal(risky, values[0], error)
            for half in (values[: len(values) // 2], values[len(values) // 2 :]):
                refused = self._try(spark, risky, half)
                if refused[1] is not None:
                    return refused
            return values[0], None
        if len(self._fine) + len(values) > MOST_KNOWN:
            self._fine.clear()
        self._fine |= dict.fromkeys((id(risky.expression), tried) for tried in values[:MOST_KNOWN])
        return values[0], None

    def _refusal(self, risky: _Risky, values: tuple[Any, ...], error: Exception) -> InvalidInput:
        given = zip(risky.parameters, values, strict=True)
        return InvalidInput(
            f"channel {self.compiled.channel.name!r} cannot compute with"
            f" {', '.join(f'{parameter.name} = {value!r}' for parameter, value in given)}:"
            f" {reason(error)}",
            field=risky.parameters[0].name,
            hint="give another value",
        )


def _try_one(spark: SparkSession, risky: _Risky, values: tuple[Any, ...]) -> None:
    names = [parameter.name.lower() for parameter in risky.parameters]
    given = {name: _value(value) for name, value in zip(names, values, strict=True)}
    spark.sql(f"SELECT {risky.text(':{}')} AS tried", args=given).collect()


def _try_many(spark: SparkSession, risky: _Risky, values: Sequence[tuple[Any, ...]]) -> None:
    columns = {
        parameter.name.lower(): pa.array(
            [_value(given[place]) for given in values], ARROW.get(parameter.type, pa.string())
        )
        for place, parameter in enumerate(risky.parameters)
    }
    given = spark.createDataFrame(pa.table(columns))
    given.selectExpr(f"{risky.text('`{}`')} AS tried").collect()


def _risky(compiled: CompiledChannel, mask: Mask) -> Iterator[_Risky]:
    declared = {parameter.name.lower(): parameter for parameter in compiled.channel.parameters}
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
                names = {node.name.lower() for node in example.find_all(exp.Placeholder)}
                yield _Risky(example, tuple(declared[name] for name in sorted(names)))


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


def _value(argument: object) -> object:
    return argument if isinstance(argument, bool | int | float | str) else str(argument)
