"""Ad hoc SELECT over the stored datasets, for people who look around."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import msgspec
from msgspec import Struct
from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tocsin.errors import InvalidInput, StatementError
from tocsin.protocol.numbers import exact
from tocsin.spark.channels import plain_query, run_plain
from tocsin.spark.channels.dialect import QueryText
from tocsin.spark.channels.matching import as_json
from tocsin.spark.channels.refusals import plain_message
from tocsin.spark.channels.spark_reading import check_names
from tocsin.spark.failures import NO_MEMORY, Blame, blame
from tocsin.spark.job_group import JobGroup

MOST_ROWS = 1000
MOST_BYTES = 16 * 1024 * 1024
"""Of rows as JSON: what an answer may take of the driver's memory, and then of ours."""
_ROW, _NUMBER, _BYTES = "__row", "__number", "__bytes"


class Answer(Struct, frozen=True):
    """Rows of a query, as JSON can carry them; `cut` says that there were more."""

    columns: list[str]
    rows: list[list[Any]]
    cut: bool = False


def answer(
    spark: SparkSession,
    text: str,
    view: Callable[[str], DataFrame],
    *,
    limit_s: float,
    subscriber: str = "",
) -> Answer:
    """Run `text` for at most `limit_s`; `view` gives the DataFrame of a dataset by name.
    `subscriber` is who asks."""
    query = plain_query(text, subscriber)
    views = {name: view(name) for name in query.datasets}

    def run() -> Answer:
        frame = run_plain(spark, query, views)
        check_names(QueryText(text), frame, channel=False)
        count, rows = _collect(frame)
        values = [[*_decoder.decode(row).values()] for row in rows[:MOST_ROWS]]
        return Answer(frame.columns, values, cut=count > len(values))

    try:
        return _within(spark, limit_s, run)
    except (ParseException, AnalysisException) as error:
        raise StatementError(plain_message(error) or "Spark cannot read this query") from None
    except (PySparkException, Py4JJavaError) as error:
        why = plain_message(error) or "Spark could not compute its answer"
        why = NO_MEMORY if blame(error) is Blame.MEMORY else why
        raise InvalidInput(f"the query failed: {why}") from None


def _within(spark: SparkSession, limit_s: float, run: Callable[[], Answer]) -> Answer:
    """What `run` answers in time. Planning cannot be stopped: its thread is left alone, and no job
    of its own starts any more."""
    group = JobGroup(spark, "ad hoc query")
    outcome: Future[Answer] = Future()

    def work() -> None:
        try:
            with group:
                outcome.set_result(run())
        except BaseException as error:
            outcome.set_exception(error)

    InheritableThread(target=work, name="query", daemon=True).start()
    done, _ = wait((outcome,), limit_s)
    if not done:
        group.cancel()
        raise InvalidInput(
            f"the query was stopped: it took longer than {limit_s:g} s",
            field="query_limit_s",
            hint="ask for less, or raise the setting query_limit_s",
        )
    return outcome.result()


def _collect(frame: DataFrame) -> tuple[int, list[str]]:
    """The first rows as JSON, as far as they are few and small, and how many there are up to one
    more. Their columns are numbered: names may be alike."""
    names = [f"c{number}" for number in range(len(frame.columns))]
    plain = frame.toDF(*names).limit(MOST_ROWS + 1)
    texts = plain.select(as_json(plain, names).alias(_ROW))
    so_far = Window.orderBy(_NUMBER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    measured = texts.withColumn(_NUMBER, F.monotonically_increasing_id()).withColumn(
        _BYTES, F.sum(F.octet_length(_ROW).cast("bigint")).over(so_far)
    )
    fits = F.col(_BYTES) <= MOST_BYTES
    kept = measured.orderBy(_NUMBER).select(F.when(fits, F.col(_ROW)).alias(_ROW)).collect()
    return len(kept), [row[_ROW] for row in kept if row[_ROW] is not None]


def _number(text: str) -> Any:
    """As a float when that is the number; else as it stands, digit for digit."""
    number = exact(text)
    return number if isinstance(number, float) else msgspec.Raw(text.encode())


_decoder = msgspec.json.Decoder(float_hook=_number)
