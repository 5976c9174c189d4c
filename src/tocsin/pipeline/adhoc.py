"""Ad hoc SELECT over the stored datasets, for people who look around."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InvalidInput, StatementError
from tocsin.pipeline.channels import plain_query, run_plain

MOST_ROWS = 1000


class Answer(Struct, frozen=True):
    """Rows of a query, as JSON can carry them; `cut` says that there were more."""

    columns: list[str]
    rows: list[list[Any]]
    cut: bool = False


def answer(spark: SparkSession, text: str, view: Callable[[str], DataFrame]) -> Answer:
    """Run `text`; `view` gives the DataFrame of a dataset by name."""
    query = plain_query(text)
    try:
        found = run_plain(spark, query, {name: view(name) for name in query.datasets})
        rows = found.limit(MOST_ROWS + 1).collect()
    except (ParseException, AnalysisException) as error:
        raise StatementError(_first_line(error)) from None
    except PySparkException as error:
        raise InvalidInput(f"the query failed: {_first_line(error)}") from None
    values = [[_plain(value) for value in row] for row in rows[:MOST_ROWS]]
    return Answer(found.columns, values, cut=len(rows) > MOST_ROWS)


def _first_line(error: PySparkException) -> str:
    return (error.getMessage() or str(error)).strip().splitlines()[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
