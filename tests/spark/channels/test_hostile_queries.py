"""No query that is accepted reads a file, a variable, or runs a program. Statements come from a
grammar by seed; TOCSIN_HOSTILE=5000 tries that many."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark.channels.hostile import Grammar, Planted
from spark.channels.test_analyse import DATASETS
from tocsin.errors import TocsinError
from tocsin.model import Channel
from tocsin.spark.adhoc import answer
from tocsin.spark.channels import analyse, compile_channel, plain_query
from tocsin.spark.records import schema_of

pytestmark = pytest.mark.spark

STATEMENTS = int(os.environ.get("TOCSIN_HOSTILE", "240"))
CONTENT = "the-planted-content"
PROPERTY = "tocsin.planted"
VARIABLE = "JAVA_HOME"  # one that Java really has


@pytest.fixture(scope="module")
def planted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    folder = tmp_path_factory.mktemp("planted")
    file = folder / "read.txt"
    file.write_text(f"{CONTENT}\n")
    java: Any = spark.sparkContext._jvm
    system = java.java.lang.System
    system.setProperty(PROPERTY, CONTENT)
    yield Planted(file, VARIABLE, PROPERTY, folder / "made")
    system.clearProperty(PROPERTY)


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> dict[str, DataFrame]:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    report = (1, "fire", 2, 50.0, 10.0, at, ["x", "y"], 0, at)
    rows = {"reports": report, "users": ("ann", 50.0, 10.0, 5.0, 0, at)}
    return {
        name: spark.createDataFrame([row], schema_of(DATASETS[name])) for name, row in rows.items()
    }


def said(spark: SparkSession, text: str, views: dict[str, DataFrame]) -> tuple[bool, str]:
    """Whether our checks accepted it, and everything that its author then hears."""
    try:
        plain_query(text)
    except TocsinError as error:
        return False, str(error)
    try:
        return True, repr(answer(spark, text, views.__getitem__, limit_s=30))
    except (TocsinError, KeyError) as error:
        return True, str(error)


def leaks(heard: str) -> bool:
    return any(each in heard for each in (CONTENT, os.environ[VARIABLE]))


@pytest.mark.parametrize("seed", range(4))
def test_no_accepted_statement_reaches_what_is_planted(
    spark: SparkSession, planted: Planted, views: dict[str, DataFrame], seed: int
) -> None:
    grammar = Grammar(seed, planted)
    for number in range(STATEMENTS // 4):
        text = grammar.hostile()
        _, heard = said(spark, text, views)
        assert not leaks(heard), f"seed {seed}, statement {number}: {text}\n{heard}"
        assert not planted.made.exists(), f"seed {seed}, statement {number}: {text}"


def test_no_channel_reaches_what_is_planted(spark: SparkSession, planted: Planted) -> None:
    """Creating one lets Spark analyse the author's own text."""
    grammar = Grammar(100, planted)
    for number in range(STATEMENTS // 8):
        text = grammar.hostile()
        marked = text.replace("FROM reports", "FROM NEW reports")
        made = Channel(name="c", kind="continuous", parameters=(), query=marked, reads=(), new=())
        try:
            heard = repr(analyse(spark, compile_channel(made, DATASETS), DATASETS))
        except TocsinError as error:
            heard = str(error)
        assert not leaks(heard), f"statement {number}: {text}\n{heard}"
        assert not planted.made.exists(), f"statement {number}: {text}"


def test_harmless_statements_are_accepted_and_run(
    spark: SparkSession, planted: Planted, views: dict[str, DataFrame]
) -> None:
    """So that nothing is proven by refusing everything."""
    grammar = Grammar(7, planted)
    for number in range(STATEMENTS // 8):
        text = grammar.harmless()
        accepted, heard = said(spark, text, views)
        assert accepted, f"statement {number}: {text}\n{heard}"
        assert heard.startswith("Answer("), f"statement {number}: {text}\n{heard}"


def test_the_attacks_succeed_where_nothing_checks_them(
    spark: SparkSession, planted: Planted, views: dict[str, DataFrame]
) -> None:
    """So that nothing is proven by attacks that could not work."""
    bare = spark.newSession()
    for setting in ("spark.sql.runSQLOnFiles", "spark.sql.variable.substitute"):
        bare.conf.set(setting, "true")
    for name, frame in views.items():
        bare.createDataFrame(frame.toPandas(), frame.schema).createOrReplaceTempView(name)
    grammar = Grammar(3, planted)
    reached = 0
    for _ in range(100):
        with contextlib.suppress(PySparkException, Py4JJavaError):
            heard = repr(bare.sql(grammar.hostile()).limit(5).collect())
            reached += leaks(heard) or planted.made.exists()
        planted.made.unlink(missing_ok=True)
    assert reached >= 8


def test_a_program_would_really_be_run(
    spark: SparkSession, planted: Planted, views: dict[str, DataFrame], tmp_path: Path
) -> None:
    made = tmp_path / "made"
    views["reports"].createOrReplaceTempView("reports_bare")
    text = f"SELECT TRANSFORM(id) USING 'touch {made}' AS (x) FROM reports_bare"  # noqa: S608
    with pytest.raises(TocsinError, match="start a program"):
        plain_query(text)
    spark.sql(text).collect()
    assert made.exists()
    spark.catalog.dropTempView("reports_bare")
