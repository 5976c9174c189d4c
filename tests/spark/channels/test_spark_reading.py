"""What Spark reads is compared with what is allowed, whatever sqlglot makes of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tocsin.errors import StatementError
from tocsin.spark.channels.dialect import QueryText
from tocsin.spark.channels.spark_reading import check_names, check_reading
from tocsin.spark.channels.views import run_sql

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TRANSFORM(id) USING 'id' AS (x) FROM reports",
        "FROM reports MAP id USING 'id' AS (x)",
        "SELECT `reFlect`('a', 'b')",
        "SELECT system.builtin.reflect('a', 'b')",
        "SELECT identifier('ref' || 'lect')('a', 'b')",
        "SELECT transform(array(1), x -> java_method('a', x))",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY reflect('a'))",
        "SELECT a FROM t LATERAL VIEW reflect('a') u AS b",
        "SELECT * FROM VALUES (reflect('a')) AS t(a)",
        "SELECT * FROM text.`/etc/passwd`",
        "WITH `text, /etc/passwd` AS (SELECT 1) SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
        "SELECT * FROM python_worker_logs()",
        "SELECT * FROM t TABLESAMPLE (1 PERCENT)",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT /*+ REPARTITION(3) */ * FROM t",
        "SELECT input_file_name() FROM t",
        "SET a = b",
        "CREATE TABLE a AS SELECT 1",
        "DROP TABLE a",
        "ADD FILE '/etc/passwd'",
        "TABLE text.`/etc/passwd`",
        "SHOW FUNCTIONS",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "DECLARE a = 1",
    ],
)
def test_what_is_not_allowed_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(StatementError) as caught:
        check_reading(spark, text)
    assert "org.apache" not in str(caught.value)


def test_a_variable_in_a_text_stays_as_it_is_written(spark: SparkSession) -> None:
    text = "${env:HOME} ${system:user.home} ${spark.driver.memory}"
    (row,) = run_sql(spark, f"SELECT '{text}' AS x", {}, {}).collect()
    assert row[0] == text


def test_a_text_is_read_by_our_settings_in_every_thread(spark: SparkSession) -> None:
    """What Spark says of a syntax error repeats what it read."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(ParseException) as caught:
        pool.submit(check_reading, spark, "SELECT 1 AS a '${system:java.version}'").result()
    assert "${system:java.version}" in str(caught.value)


def test_a_file_is_no_table(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "false"
    assert spark.newSession().conf.get("spark.sql.variable.substitute") == "false"


def test_a_dataset_is_put_in_where_it_is_named_and_nowhere_else(spark: SparkSession) -> None:
    """In a quoted name it would end the quotes, and turn what follows into SQL."""
    frame = spark.range(1)
    sql = (
        "SELECT 1 AS `a __stored_r`, 2 AS `, 3 AS b, 4 AS c`, '__stored_r' AS d, r.id"
        " FROM `__stored_r` AS r"
    )
    found = run_sql(spark, sql, {"__stored_r": frame}, {})
    assert found.columns == ["a __stored_r", ", 3 AS b, 4 AS c", "d", "id"]
    (row,) = found.collect()
    assert row[2] == "__stored_r"


@pytest.mark.parametrize("name", ["user", "`current_user`", "SESSION_USER"])
def test_a_name_that_is_no_column_tells_nothing_of_the_session(
    spark: SparkSession, name: str
) -> None:
    text = f"SELECT {name} AS x"
    with pytest.raises(StatementError, match="name of a column") as caught:
        check_names(QueryText(text), spark.sql(text), channel=False)
    assert (caught.value.line, caught.value.column) == (1, 8 + name.count("`") // 2)


def test_a_column_may_have_such_a_name(spark: SparkSession) -> None:
    text = "SELECT user FROM VALUES ('ann') AS t(user)"
    check_names(QueryText(text), spark.sql(text), channel=True)


def test_a_quoted_clock_is_a_clock(spark: SparkSession) -> None:
    text = "SELECT `current_date` AS x"
    check_names(QueryText(text), spark.sql(text), channel=False)
    with pytest.raises(StatementError, match="could not be repeated"):
        check_names(QueryText(text), spark.sql(text), channel=True)
