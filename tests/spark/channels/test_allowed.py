"""Queries consist of allowed syntax and functions; everything else is refused where it stands."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.channels.test_analyse import DATASETS
from tocsin.demo.city import CHANNELS
from tocsin.errors import StatementError
from tocsin.model import Channel
from tocsin.spark.channels import compile_channel, plain_query
from tocsin.spark.channels.allowed import check_allowed
from tocsin.spark.channels.allowed_functions import (
    ALLOWED,
    CLOCK,
    REFUSED,
    SYNTAX,
    TABLE_FUNCTIONS,
)
from tocsin.spark.channels.dialect import QueryText, parse_query
from tocsin.spark.channels.spark_reading import check_reading

GETENV = "'java.lang.System', 'getenv', 'TOCSIN_SECRET'"


def refusal(text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        plain_query(text)
    return caught.value


def channel(query: str) -> None:
    made = Channel(name="c", kind="continuous", parameters=(), query=query, reads=(), new=())
    compile_channel(made, DATASETS)


@pytest.mark.parametrize(
    ("query", "column", "says"),
    [
        ("SELECT TRANSFORM(id) USING 'id' AS (x) FROM reports", 8, "start a program"),
        (f"SELECT `reflect`({GETENV}) AS x", 8, "call Java"),
        (f"SELECT rEfLeCt /* x */ ({GETENV}) AS x", 8, "call Java"),
        (f"SELECT java_method({GETENV}) AS x", 8, "call Java"),
        (f"SELECT upper(try_reflect({GETENV})) AS x", 14, "call Java"),
        (f"SELECT `system`.`builtin`.`reflect`({GETENV}) AS x", 27, "plain names"),
        (f"SELECT id FROM reports ORDER BY reflect({GETENV})", 33, "call Java"),  # noqa: S608
        ("SELECT identifier('a') AS x", 8, "IDENTIFIER"),
        ("SELECT * FROM IDENTIFIER('text.`/etc/passwd`')", 15, "IDENTIFIER"),
        ("SELECT * FROM text.`/etc/passwd`", 15, "no dataset"),
        ("SELECT * FROM read_files('/etc/passwd')", 15, "no function read_files"),
        ("SELECT * FROM upper('a')", 15, "no rows"),
        ("SELECT * FROM a.b.range(3)", 15, "plain names"),
        ("SELECT from_xml('', 'a INT') AS x", 8, "open files"),
        ("SELECT current_user AS x", 8, "machinery"),
        ("SELECT version() AS x", 8, "machinery"),
        ("SELECT assert_true(false) AS x", 8, "everybody else's results"),
        ("SELECT uuid() AS x", 8, "another answer each time"),
        ("SELECT uper('a') AS x", 8, "did you mean upper()?"),
        ("SELECT * FROM reports TABLESAMPLE (10 ROWS)", 23, "another answer each time"),
        ("SELECT * FROM reports VERSION AS OF 3", 37, "no versions"),
        ("SELECT /*+ BROADCAST(reports) */ * FROM reports", 8, "hints"),
        ("FROM reports |> SELECT id", 14, "|> is not available"),
        ("SELECT ? AS x", 1, "written as :name"),
        ("SELECT sum(id) OVER w AS x FROM reports WINDOW w AS (ORDER BY id)", 48, "OVER"),
        ("SELECT id FROM reports CLUSTER BY id", 35, "CLUSTER is not available"),
        ("SELECT id INTO a FROM reports", 16, "INTO is not available"),
        ("SELECT TIME '10:00:00' AS x", 13, "no type TIME"),
        ("SELECT window_end() AS x", 8, "in channels only"),
    ],
)
def test_what_is_not_allowed_is_refused_where_it_stands(query: str, column: int, says: str) -> None:
    told = refusal(query)
    assert says in str(told)
    assert (told.line, told.column) == (1, column)


@pytest.mark.parametrize("text", ["SET a = 1", "BEGIN SELECT 1; END", "SELECT 1; SELECT 2", "("])
def test_only_one_query_is_read(text: str) -> None:
    refusal(text)


def test_what_cannot_be_read_at_all_is_refused_too() -> None:
    assert "nested too deeply" in str(refusal("SELECT " + "(" * 500 + "1" + ")" * 500))


@pytest.mark.parametrize(
    "moment",
    ["now()", "current_date", "current_timestamp()", "unix_timestamp()", "localtimestamp()",
     "TIMESTAMP 'now'", "CAST(' Today' AS DATE)"],
)  # fmt: skip
def test_the_clock_is_for_ad_hoc_queries_only(moment: str) -> None:
    """A channel's run must be repeatable."""
    plain_query(f"SELECT {moment} AS x FROM reports")  # noqa: S608
    with pytest.raises(StatementError, match="could not be repeated"):
        channel(f"SELECT {moment} AS x FROM NEW reports")  # noqa: S608


def test_what_the_demo_asks_is_allowed() -> None:
    for each in CHANNELS:
        query = QueryText(each.query)
        check_allowed(query, parse_query(query), channel=True)


@pytest.mark.spark
def test_every_function_of_spark_is_decided_upon(spark: SparkSession) -> None:
    """A new Spark fails here until somebody has looked at what it brings."""
    there = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    there = {name for name in there if not name.startswith("tocsin")}
    assert there - ALLOWED - CLOCK - REFUSED.keys() == set(), "allow or refuse them"
    assert (ALLOWED | CLOCK | REFUSED.keys()) - there == SYNTAX, "this Spark has them not"
    assert not (ALLOWED | CLOCK) & REFUSED.keys()
    assert TABLE_FUNCTIONS < ALLOWED


def documented_examples(spark: SparkSession) -> dict[str, str]:
    """Of each function of Spark's, in one call: to describe them one by one takes half a minute."""
    java: Any = spark.sparkContext._jvm
    infos = java.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    return {info.getName(): info.getExamples() or "" for info in infos}


@pytest.mark.spark
def test_documented_examples_of_allowed_functions_are_accepted(spark: SparkSession) -> None:
    """As Spark's own documentation writes them, and as they are written for Spark."""
    unread = {">>>", "bitmap_and_agg", "bitmap_or_agg", "bitmap_count", "shiftrightunsigned"}
    unread |= {"approx_top_k", "approx_top_k_accumulate", "approx_top_k_estimate"}  # VALUES 'a'
    times = re.compile(r"\bTIME\s*'", re.IGNORECASE)
    tried = 0
    examples = documented_examples(spark)
    for name in sorted((ALLOWED | CLOCK) - SYNTAX - unread):
        for query in re.findall(r"^\s*> (SELECT.*?);\s*$", examples.get(name, ""), re.M | re.S):
            if not times.search(query) and ">>>" not in query:
                check_reading(spark, query)
                check_reading(spark, plain_query(query).sql)
                tried += 1
    assert tried > 900, tried


@pytest.mark.spark
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("listagg(a)", "abc"),
        ("string_agg(a, '+') WITHIN GROUP (ORDER BY a DESC)", "c+b+a"),
        ("max_by(a, n, 2)", ["c", "b"]),
        ("min_by(a, n)", "a"),
        ("percentile_cont(0.25) WITHIN GROUP (ORDER BY n)", 1.5),
        ("to_char(sum(n) * 1000, '9G999')", "6,000"),
        ("max(variant_get(parse_json('{\"k\": 7}'), '$.k', 'int'))", 7),
        ("max(collate(a, 'UTF8_LCASE'))", "c"),
    ],
)
def test_functions_mean_what_they_mean_to_spark(
    spark: SparkSession, expression: str, value: object
) -> None:
    """sqlglot would write them in another way."""
    rows = "VALUES ('a', 1), ('b', 2), ('c', 3) AS t(a, n)"
    sql = plain_query(f"SELECT {expression} AS x FROM {rows} LIMIT 1").sql  # noqa: S608
    (row,) = spark.sql(sql).collect()
    assert row[0] == value
