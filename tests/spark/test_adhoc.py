"""An ad hoc query ends in time, and its answer is small enough to be carried."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin.errors import InvalidInput, StatementError
from tocsin.spark import adhoc
from tocsin.spark.adhoc import MOST_BYTES, MOST_ROWS, Answer, answer

pytestmark = pytest.mark.spark


def ask(spark: SparkSession, text: str, *, limit_s: float = 60) -> Answer:
    def view(name: str) -> DataFrame:
        return spark.range(3).withColumnRenamed("id", name)

    return answer(spark, text, view, limit_s=limit_s)


def test_rows_are_cut_at_a_limit_in_their_order(spark: SparkSession) -> None:
    few = ask(spark, "SELECT id AS n, 'x' AS t FROM range(20) ORDER BY id DESC")
    assert few == Answer(["n", "t"], [[n, "x"] for n in range(19, -1, -1)])
    many = ask(spark, "SELECT id AS n, 'x' AS t FROM range(5000) ORDER BY id DESC")
    assert many.cut
    assert [row[0] for row in many.rows] == list(range(4999, 4999 - MOST_ROWS, -1))
    assert ask(spark, "SELECT id FROM range(5000)").cut


def test_columns_may_share_a_name(spark: SparkSession) -> None:
    assert ask(spark, "SELECT 1 AS a, 'x' AS a") == Answer(["a", "a"], [[1, "x"]])


def test_large_values_do_not_reach_the_driver(spark: SparkSession) -> None:
    size = MOST_BYTES // 4 + 1
    cut = ask(spark, f"SELECT id, repeat('x', {size}) AS t FROM range(10)")  # noqa: S608
    assert cut.cut
    assert [row[0] for row in cut.rows] == [0, 1, 2]
    assert ask(spark, f"SELECT array(repeat('x', {MOST_BYTES})) AS t").rows == []


def test_a_query_that_takes_too_long_is_stopped(spark: SparkSession) -> None:
    text = "SELECT count(*) AS n FROM range(1000000000) a, range(1000000) b WHERE a.id % 7 > b.id"
    started = time.monotonic()
    with pytest.raises(InvalidInput, match=r"longer than 2 s.*query_limit_s") as caught:
        ask(spark, text, limit_s=2)
    assert caught.value.field == "query_limit_s"
    assert time.monotonic() - started < 20
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 20
    while tracker.getActiveJobsIds():
        assert time.monotonic() < deadline, "the job went on"
        time.sleep(0.1)


def test_a_query_is_stopped_while_it_is_planned(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job of it starts afterwards."""
    real = adhoc._collect

    def slow(frame: DataFrame) -> object:
        time.sleep(2)
        ended.append("planned")
        try:
            return real(frame)
        finally:
            ended.append("collected")

    ended: list[str] = []
    monkeypatch.setattr(adhoc, "_collect", slow)
    with pytest.raises(InvalidInput, match="query_limit_s"):
        ask(spark, "SELECT sum(id) AS n, 'x' AS t FROM range(100)", limit_s=0.5)
    assert ended == []
    deadline = time.monotonic() + 20
    while len(ended) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ended == ["planned", "collected"]


def test_a_query_that_wants_too_much_memory_is_told_so_and_harms_nobody(
    spark: SparkSession,
) -> None:
    text = "SELECT length(repeat('x', CAST(id + 2000000000 AS INT))) AS n FROM range(2)"
    with pytest.raises(InvalidInput, match="more memory than Spark has"):
        ask(spark, text)
    assert ask(spark, "SELECT 1 AS one").rows == [[1]]


def test_the_session_is_not_told_of(spark: SparkSession) -> None:
    with pytest.raises(StatementError, match="name of a column"):
        ask(spark, "SELECT user AS x")


def test_what_java_throws_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="the query failed: ") as caught:
        ask(spark, "SELECT element_at(array(id), 0) AS x FROM range(1)")
    assert "\n" not in str(caught.value)
