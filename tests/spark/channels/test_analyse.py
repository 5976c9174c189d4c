"""What creation accepts, how it will run, and where it says an error is."""

from __future__ import annotations

from importlib import import_module

import pytest
from pyspark.sql import SparkSession

from tocsin.errors import InvalidInput, StatementError
from tocsin.model import Column, Dataset
from tocsin.spark.channels import (
    CompiledChannel,
    analyse,
    check_open,
    compile_channel,
    plain_query,
)
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

pytestmark = pytest.mark.spark


def dataset(name: str, columns: str) -> Dataset:
    pairs = (each.split() for each in columns.split(", "))
    return Dataset(name, tuple(Column(column, kind) for column, kind in pairs))


DATASETS = {
    "reports": dataset(
        "reports",
        "id INT, type STRING, sev INT, lat DOUBLE, lon DOUBLE, at TIMESTAMP, tags ARRAY<STRING>",
    ),
    "users": dataset("users", "uid STRING, ulat DOUBLE, ulon DOUBLE, radius DOUBLE"),
}


def compiled(parameters: str, query: str) -> CompiledChannel:
    made = parse_one("CREATE CONTINUOUS CHANNEL c(" + parameters + ") AS\n" + query)
    assert isinstance(made, CreateChannel)
    return compile_channel(made, DATASETS)


@pytest.mark.parametrize(
    ("parameters", "query", "form", "matching"),
    [
        ("t STRING", "SELECT id FROM NEW reports WHERE type = :t", "flat", "hash join"),
        (
            "a DOUBLE, o DOUBLE, km DOUBLE",
            "SELECT id FROM NEW reports WHERE near(lat, lon, :a, :o, :km)",
            "flat",
            "hash join on grid cells",
        ),
        ("m INT", "SELECT id FROM NEW reports WHERE sev > :m", "flat", "dyadic ranges"),
        (
            "u STRING, km DOUBLE",
            "SELECT id FROM NEW reports r, users u WHERE uid = :u"
            " AND near(r.lat, r.lon, u.ulat, u.ulon, :km)",
            "flat",
            "hash join, datasets joined on grid cells",
        ),
        (
            "t STRING",
            "SELECT sev, count(*) AS n FROM NEW reports WHERE type = :t GROUP BY sev",
            "grouped",
            "hash join",
        ),
        ("t STRING", "SELECT count(*) AS n FROM NEW reports WHERE type = :t", "lateral", "once"),
        (
            "t STRING",
            "SELECT id, sev FROM NEW reports WHERE type = :t ORDER BY sev DESC LIMIT 3",
            "flat",
            "hash join",
        ),
        (
            "t STRING",
            "SELECT id FROM NEW reports WHERE sev = 1 OR type = :t",
            "flat",
            "nested loop",
        ),
        ("", "SELECT * FROM NEW reports", "flat", "one for all"),
        (
            "t STRING",
            "WITH a AS (SELECT * FROM NEW reports WHERE type = :t) SELECT id FROM a",
            "lateral",
            "once",
        ),
        (
            "t STRING",
            "SELECT id FROM NEW reports WHERE type = :t AND at > window_start()",
            "flat",
            "hash join",
        ),
        (
            "m INT",
            "WITH a AS (SELECT * FROM NEW reports WHERE at > window_start())"
            " SELECT id FROM a WHERE sev > :m AND at <= window_end()",
            "flat",
            "dyadic ranges",
        ),
        ("", "SELECT id FROM NEW reports WHERE at > window_start()", "flat", "one for all"),
        (
            "a DOUBLE, o DOUBLE",
            "SELECT id FROM NEW reports WHERE near(lat, lon, :a, :o, hour(window_end()))",
            "flat",
            "nested loop",
        ),
    ],
)
def test_accepted_queries_say_how_they_run(
    spark: SparkSession, parameters: str, query: str, form: str, matching: str
) -> None:
    made = compiled(parameters, query)
    analyse(spark, made, DATASETS)
    description = dict(made.describe())
    assert description["form"] == form
    assert matching in description["matching"]
    assert description["why"]


def test_output_columns_are_those_of_the_query(spark: SparkSession) -> None:
    made = compiled("t STRING", "SELECT *, _position AS _hidden FROM NEW reports WHERE type = :t")
    assert [column.name for column in analyse(spark, made, DATASETS)] == [
        column.name for column in DATASETS["reports"].columns
    ]


@pytest.mark.parametrize(
    ("parameters", "query", "line", "column", "says"),
    [
        ("", "SELECT idd FROM NEW reports", 2, 8, "`idd`"),
        ("", "SELECT id\n  FROM NEW report", 3, 12, "did you mean 'reports'"),
        ("", "SELECT id FROM reports", 2, 1, "mark a dataset NEW"),
        ("", "SELECT id,\n id + 1 FROM NEW reports", 3, 2, "add an alias"),
        ("", "SELECT id,\n sev AS id FROM NEW reports", 3, 2, "two columns"),
        ("", "SELECT r.*, s.id FROM NEW reports r, NEW reports s", 2, 1, "two columns"),
        ("", "SELECT id AS _id FROM NEW reports", 2, 1, "no visible column"),
        ("", "SELECT id FROM NEW reports\nWHERE id = :x", 3, 12, "no parameter :x"),
        ("", "SELECT id FROM NEW reports\nWHERE typo(id)", 3, 7, "typo"),
        ("", "SELECT id FROM NEW reports WHERE WHERE", 2, 34, "syntax error"),
        ("", "SELECT id FROM NEW reports r WHERE r.tags > 3", 2, 36, "mismatch"),
        ("", "SELECT id, rand() AS x FROM NEW reports", 2, 12, "another answer each time"),
        ("", "SELECT reflect('a', 'b') AS x FROM NEW reports", 2, 8, "not available"),
        ("n INT", "SELECT id FROM NEW reports LIMIT :n", 2, 34, "need a constant"),
        ("", "SELECT id FROM NEW reports WHERE near(lat, lon, 1)", 2, 34, "5 arguments"),
        ("", "SELECT id FROM json.`/etc/hosts`, NEW reports", 2, 16, "no dataset"),
        (
            "n INT",
            "SELECT id FROM NEW reports WHERE id IN (SELECT max(radius) FROM users\n"
            " WHERE radius > (SELECT min(radius) FROM users WHERE radius = :n))",
            3,
            63,
            "a subquery within a subquery",
        ),
        ("", "SELECT id AS __x FROM NEW reports", 2, 14, "kept for Tocsin"),
    ],
)
def test_refused_queries_say_why_and_where(
    spark: SparkSession, parameters: str, query: str, line: int, column: int, says: str
) -> None:
    with pytest.raises(StatementError) as caught:
        analyse(spark, compiled(parameters, query), DATASETS)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_open_parameters_are_tried_before_they_are_left_open(spark: SparkSession) -> None:
    made = compiled(
        "t STRING, a DOUBLE, o DOUBLE, km DOUBLE",
        "SELECT count(*) AS n FROM NEW reports WHERE near(lat, lon, :a, :o, :km)"
        " AND EXISTS (SELECT 1 FROM users WHERE uid = :t)",
    )
    analyse(spark, made, DATASETS)
    check_open(spark, made, frozenset(("a", "o", "km")))
    simple = compiled("t STRING", "SELECT count(*) AS n FROM NEW reports WHERE type = :t")
    check_open(spark, simple, frozenset("t"))


def test_open_parameters_with_which_spark_finds_no_plan_are_refused_by_name(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows such a query, but Spark may come to refuse one."""

    def refuse(*_: object) -> None:
        raise StatementError("it finds no plan")

    module = import_module("tocsin.spark.channels.analyse")
    monkeypatch.setattr(module, "_planned", refuse)
    made = compiled("T STRING", "SELECT count(*) AS n FROM NEW reports WHERE type = :T")
    with pytest.raises(
        InvalidInput, match="'c' cannot run with T open: it finds no plan"
    ) as caught:
        check_open(spark, made, frozenset("t"))
    assert caught.value.field == "T"


def test_a_plain_query_names_its_datasets_and_nothing_else() -> None:
    made = plain_query("SELECT r.id FROM reports r JOIN (SELECT uid FROM users) u ON true;")
    assert set(made.datasets) == {"reports", "users"}
    for text in ("SELECT :a FROM reports", "SELECT 1 FROM NEW reports", "SELECT 1 FROM a.b", "x"):
        with pytest.raises(StatementError):
            plain_query(text)


def test_a_refused_query_is_told_by_our_error_alone(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StatementError):
        analyse(spark, compiled("", "SELECT nothing_like_it AS x FROM NEW reports"), DATASETS)
    assert capfd.readouterr() == ("", "")
