"""Arguments that a channel's query cannot compute with are refused when they are given."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tocsin.errors import InvalidInput
from tocsin.model import ANY, Column, Dataset
from tocsin.spark.channels import Trials, compile_channel
from tocsin.sql import CreateChannel, bind_arguments, parse_one

pytestmark = pytest.mark.spark

COLUMNS = {"id": "INT", "text": "STRING", "tags": "ARRAY<STRING>", "at": "TIMESTAMP"}
REPORTS = Dataset("reports", tuple(Column(name, kind) for name, kind in COLUMNS.items()))


def attempt(spark: SparkSession, kind: str, where: str, value: Any) -> None:
    text = f"SELECT r.id FROM NEW reports r WHERE {where}"  # noqa: S608
    asked = parse_one(f"CREATE CONTINUOUS CHANNEL c(x {kind}) AS {text}")
    assert isinstance(asked, CreateChannel)
    compiled = compile_channel(asked, {"reports": REPORTS})
    given = bind_arguments(compiled.channel, {"x": value})
    refused = Trials(compiled).first_refused(spark, [given])
    if refused is not None:
        raise refused[1]


@pytest.mark.parametrize(
    ("kind", "where", "value", "reason"),
    [
        ("STRING", "r.text LIKE '%' || :x || '%'", "a\\b", "escape character"),
        ("STRING", "r.text RLIKE :x", "((", "is invalid"),
        ("STRING", "upper(r.text) RLIKE upper(:x) AND r.id > 1", "((", "is invalid"),
        ("INT", "element_at(r.tags, :x) = 'a'", 0, "index"),
        ("INT", "length(repeat(r.text, :x)) > 1", 2_000_000_000, "more memory"),
        ("STRING", "date_format(r.at, :x) = '1'", "bbbb", "pattern"),
    ],
)
def test_what_fails_on_any_record_is_refused_with_its_reason(
    spark: SparkSession, kind: str, where: str, value: Any, reason: str
) -> None:
    with pytest.raises(InvalidInput, match="cannot compute with x = ") as caught:
        attempt(spark, kind, where, value)
    assert caught.value.field == "x"
    assert reason in caught.value.message.lower()


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        ("STRING", "r.text LIKE '%' || :x || '%'", "100%"),
        ("STRING", "r.text RLIKE :x", "a|b"),
        ("STRING", "r.text RLIKE :x", dict(ANY)),
        ("INT", "element_at(r.tags, :x) = 'a'", 7),
        ("INT", "r.id / :x > 1", 0),
        ("STRING", "r.text = :x", "'"),
    ],
)
def test_what_may_be_computed_with_is_taken(
    spark: SparkSession, kind: str, where: str, value: Any
) -> None:
    attempt(spark, kind, where, value)


def test_many_are_tried_at_once_and_the_first_bad_one_is_told(spark: SparkSession) -> None:
    where = "r.text RLIKE :x AND r.id > :least"
    asked = parse_one(
        f"CREATE CONTINUOUS CHANNEL c(x STRING, least INT) AS SELECT r.id FROM NEW reports r WHERE {where}"  # noqa: S608, E501
    )
    assert isinstance(asked, CreateChannel)
    trials = Trials(compile_channel(asked, {"reports": REPORTS}))

    def sets(*patterns: str) -> list[dict[str, Any]]:
        return [{"x": pattern, "least": number} for number, pattern in enumerate(patterns)]

    good = sets("a", "b|c", "a", "[0-9]+")
    assert not trials.vouches(good[0])
    assert trials.first_refused(spark, good) is None
    assert all(map(trials.vouches, good))
    assert trials.vouches({"x": "a", "least": 99})  # what is compared may have any value
    refused = trials.first_refused(spark, sets("a", "d", "((", "e", "[z", "f"))
    assert refused is not None
    assert (refused[0], refused[1].field) == (2, "x")
    assert not trials.vouches({"x": "((", "least": 1})
