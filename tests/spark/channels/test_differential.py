"""Random channels answer what their authors' queries say with each set's arguments in them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from .differential.running import INTERPRETED, VARIANTS, Laboratory, Outcome

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

SEEDS = range(int(os.environ.get("TOCSIN_DIFFERENTIAL_SEEDS", "200")))
FEW = 8
"""A feature that was drawn less often says nothing by its share."""
SHARES = {
    "join:full outer join": 0.2,  # a parameter in ON is refused
    "lateral subquery": 0.15,
    "set:except": 0.2,
    "set:intersect": 0.1,
    "derived table": 0.35,
    "cte twice": 0.25,
    "cube": 0.2,
    "rollup": 0.2,
    "grouping sets": 0.2,
    "join:right join": 0.25,
    "join:left semi join": 0.3,  # a parameter in ON is refused where there is a LIMIT
    "join:left anti join": 0.3,
    "exists": 0.35,
    "group by all": 0.25,
}
SHARE = 0.4
INSIDES = re.compile(r"__|\bo\d+\.|SQLSTATE|org\.apache|LateralJoin|Py4J|outer\(|#\d")


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession) -> list[Outcome]:
    laboratory = Laboratory(spark)
    before = {setting: spark.conf.get(setting) for setting in INTERPRETED}
    _set(spark, INTERPRETED)
    try:
        for number in range(VARIANTS):
            laboratory.variant(number)
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(laboratory.run, SEEDS))
    finally:
        _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for setting, value in settings.items():
        spark.conf.set(setting, value or "")


def test_channels_answer_what_their_queries_say(outcomes: list[Outcome]) -> None:
    for each in outcomes:
        assert not each.difference, f"seed {each.seed}: {each.asked.text}\n{each.difference}"


def test_most_of_the_language_is_accepted(outcomes: list[Outcome]) -> None:
    drawn = Counter(feature for outcome in outcomes for feature in outcome.asked.features)
    taken = Counter(
        f for outcome in outcomes if not outcome.refusal for f in outcome.asked.features
    )
    few = {
        feature: f"{taken[feature]} of {count}"
        for feature, count in drawn.items()
        if count >= FEW and taken[feature] < count * SHARES.get(feature, SHARE)
    }
    assert few == {}
    assert sum(not outcome.refusal for outcome in outcomes) > 0.6 * len(outcomes)
    assert sum(outcome.rows > 0 for outcome in outcomes) > 0.25 * len(outcomes)
    assert sum(outcome.opened > 0 for outcome in outcomes) > 0.05 * len(outcomes)


def test_refusals_speak_of_the_query_and_not_of_spark(outcomes: list[Outcome]) -> None:
    for each in outcomes:
        assert not INSIDES.search(each.refusal), f"seed {each.seed}: {each.refusal}"
