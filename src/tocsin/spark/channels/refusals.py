"""Spark's refusals in the author's words: what is wrong and where, nothing of Spark's insides."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException, PySparkException

from tocsin.errors import StatementError
from tocsin.spark.channels.dialect import QueryText
from tocsin.sql.tokens import tokenize

_APART = "this query cannot be run for all subscriptions at once: "
_REASONS = {
    "UNRESOLVED_COLUMN": "a parameter is used in a subquery within a subquery",
    "ACCESSING_OUTER_QUERY_COLUMN_IS_NOT_ALLOWED": (
        "a parameter is used on the side of an outer join whose rows may be missing, or in a"
        " subquery that is grouped or limited"
    ),
    "AGGREGATE_FUNCTION_MIXED_OUTER_LOCAL_REFERENCES": (
        "a parameter is used in an aggregate of a query that selects *"
    ),
    "CORRELATED_REFERENCE": "a parameter is used beside an aggregate over all records",
    "MISSING_AGGREGATION": "a parameter is used beside groups that it is no part of",
}
_OTHERWISE = "with its parameters where they are, Spark finds no plan for it"
_HINT = "use the parameter in WHERE of the outermost query, over columns that the others show"
_INTERNAL = re.compile(r"\b__|\bo\d+\.|org\.apache|java\.|scala\.|Py4J|INTERNAL_ERROR|#\d+")


def plain_message(error: Exception) -> str:
    """The first line of what Spark says, without codes; empty if it speaks of its insides."""
    text = ""
    if isinstance(error, PySparkException):
        text = error.getMessage() or str(error)
    line = next(iter(text.strip().splitlines()), "")
    line = re.sub(r"^\[[\w.]+\]\s*", "", line)
    line = re.sub(r"\s*SQLSTATE: \w+.*$", "", line)
    return "" if _INTERNAL.search(line) else line


def refused_as_written(query: QueryText, error: Exception) -> StatementError:
    """The author's own query, which Spark does not take."""
    message = plain_message(error) or "Spark cannot read this query"
    offset = 0
    if isinstance(error, ParseException):
        at = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
        if at:
            lines = query.text.splitlines(keepends=True)[: int(at[1]) - 1]
            offset = sum(map(len, lines)) + int(at[2])
    elif isinstance(error, AnalysisException):
        context = error.getQueryContext()
        fragment = context[0].fragment() if context else ""
        if context and query.text[context[0].startIndex() :].startswith(fragment[:20]):
            offset = context[0].startIndex()
    return query.error(message, offset)


def refused_as_compiled(query: QueryText, error: Exception) -> StatementError:
    """A query that Spark takes as written, but not for all parameter sets at once."""
    condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
    parts = condition.split(".")
    reason = next((_REASONS[part] for part in parts if part in _REASONS), _OTHERWISE)
    if parts[0] == "UNRESOLVED_COLUMN" and query.text.upper().count("SELECT") < 3:
        reason = _OTHERWISE
    return query.error(_APART + reason, first_parameter(query.text), hint=_HINT)


def first_parameter(text: str) -> int:
    return next((int(token.start) for token in tokenize(text) if token.text == ":"), 0)
