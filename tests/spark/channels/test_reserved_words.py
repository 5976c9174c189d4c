"""A name that creation takes can be written in queries without quotes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

from tocsin.errors import StatementError
from tocsin.spark.channels.dialect import QueryText, parse_query
from tocsin.sql import parse_one
from tocsin.sql.reserved import RESERVED_FOR_DATASETS, RESERVED_WORDS
from tocsin.sql.tokens import NAME

pytestmark = pytest.mark.spark

COLUMN = "SELECT {0} AS a, t.{0}, -{0} AS b FROM x AS t WHERE {0} > 1 AND 2 > {0} ORDER BY {0}"
GROUPED = "SELECT ({0}) AS a, count({0}) AS n FROM x WHERE NOT {0} IN (1) GROUP BY {0}"
PARAMETER = "SELECT :{0} AS a FROM x WHERE :{0} > 1 AND b < :{0}"
DATASET = "SELECT {0}.id, p.id AS other FROM {0} JOIN {0} AS p ON p.id = {0}.id"


def keywords(spark: SparkSession) -> list[str]:
    words = [row[0].lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    return [word for word in words if NAME.fullmatch(word)]


def test_words_that_are_not_reserved_can_be_written_in_queries(spark: SparkSession) -> None:
    broken = []
    for word in keywords(spark):
        try:
            if word not in RESERVED_WORDS:
                for text in (COLUMN, GROUPED):
                    tree = parse_query(QueryText(text.format(word)))
                    assert {each.name for each in tree.find_all(exp.Column)} >= {word}
                tree = parse_query(QueryText(PARAMETER.format(word)))
                assert len(list(tree.find_all(exp.Placeholder))) == 3
            if word not in RESERVED_FOR_DATASETS:
                tree = parse_query(QueryText(DATASET.format(word)))
                assert [each.name for each in tree.find_all(exp.Table)] == [word, word]
        except (StatementError, AssertionError):
            broken.append(word)
    assert broken == []


@pytest.mark.parametrize(
    "text",
    [
        "CREATE DATASET select (a INT)",
        "CREATE DATASET new (a INT)",
        "CREATE DATASET d (a INT, From INT)",
        "CREATE CONTINUOUS CHANNEL union() AS SELECT 1 AS a FROM NEW d",
        "CREATE CONTINUOUS CHANNEL c(where INT) AS SELECT 1 AS a FROM NEW d",
        "CREATE BROKER select AT 'http://127.0.0.1:1'",
    ],
)
def test_a_reserved_word_is_refused_as_a_name(text: str) -> None:
    with pytest.raises(StatementError, match="it is a word of SQL") as caught:
        parse_one(text)
    assert "choose another" in str(caught.value)


def test_what_was_once_called_so_can_be_dropped() -> None:
    assert parse_one("DROP DATASET select").name == "select"  # type: ignore[attr-defined]
