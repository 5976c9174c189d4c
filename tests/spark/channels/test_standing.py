"""Queries that are planned once: with many parameter sets that last, what they are made into is
kept from run to run, and who comes and goes is told apart.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.spark.channels import CompiledChannel, ParameterTable, parameter_table
from tocsin.spark.local import localised
from tocsin.spark.standing import (
    FilledTable,
    NotStanding,
    StandingQuery,
    refuse_lasting,
    standing_session,
)
from tocsin.spark.standing_queries import StandingQueries

from .test_matching import RECORDS, compiled, frame, results

pytestmark = pytest.mark.spark

CHANNELS = [
    "c(v INT) AS SELECT id FROM NEW reports WHERE sev = :v",
    "c(v INT) AS SELECT id FROM NEW reports WHERE near(lat, lon, 50, 10, :v)",
    "c(v INT) AS SELECT id FROM NEW reports WHERE sev >= :v",
    "c(v INT) AS SELECT sev, count(*) AS n FROM NEW reports WHERE sev = :v GROUP BY sev",
]
SETS = {number: {"v": number * 7 % 23} for number in range(20)}


class Asked:
    """A channel whose parameter sets last, asked as runs ask it."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        self.channel: CompiledChannel = compiled("CONTINUOUS CHANNEL " + text)
        self.table = ParameterTable(spark, self.channel, small_rows=0)
        self.table.replace(1, SETS.items())
        self.standing = StandingQueries(spark)

    def __call__(self, records: DataFrame) -> list[tuple[int, dict[str, Any]]]:
        parameters = self.table.current()
        assert parameters is not None
        new = {"reports": records}
        found = self.standing.rows(self.channel, parameters, {}, new, 60.0)
        assert found is not None, "it was not asked as a standing query"
        rows = zip(found["__backend"].to_pylist(), found["payload"].to_pylist(), strict=True)
        return [(backend, json.loads(payload)) for backend, payload in rows]


def halves(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return tuple(localised(frame(spark, part)) for part in (RECORDS[:25], RECORDS[25:]))  # type: ignore[return-value]


@pytest.mark.parametrize("text", CHANNELS)
def test_sets_that_last_answer_as_a_query_planned_for_one_run(
    spark: SparkSession, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[StandingQuery] = []
    init = StandingQuery.__init__

    def noted(self: StandingQuery, *given: Any) -> None:
        made.append(self)
        init(self, *given)

    monkeypatch.setattr(StandingQuery, "__init__", noted)
    asked, (some, others) = Asked(spark, text), halves(spark)
    for records in (some, others, some):
        assert asked(records) == results(spark, asked.channel, asked.table, records)
    assert len(made) == 1

    asked.table.update(2, [(20, {"v": 3}), (21, {"v": 100})], [0, 4, 99])  # 100: all are near
    expected = results(spark, asked.channel, asked.table, some)
    assert asked(some) == expected
    assert not {0, 4} & {backend for backend, _ in expected}
    assert {20, 21} & {backend for backend, _ in expected}
    asked.table.update(3, [(4, SETS[4])], [])  # it is here again
    assert asked(others) == results(spark, asked.channel, asked.table, others)
    assert len(made) <= 3  # those who came are asked for beside the many

    monkeypatch.setattr(parameter_table, "REBUILD_ROWS", 0)
    asked.table.update(4, [], [20])
    assert asked(some) == results(spark, asked.channel, asked.table, some)


def test_plan_that_would_keep_a_runs_rows_is_refused(spark: SparkSession) -> None:
    session = standing_session(spark)
    sets, records = (localised(frame(spark, part)) for part in (RECORDS, RECORDS[:5]))
    table = FilledTable(session, records)

    def joined(sent: DataFrame, to: DataFrame) -> Any:
        return to.join(F.broadcast(sent), "id", "inner")._jdf.queryExecution().executedPlan()

    refuse_lasting(joined(sets, to=table.frame), [table])
    with pytest.raises(NotStanding):
        refuse_lasting(joined(table.frame, to=sets), [table])
    with pytest.raises(NotStanding):  # nobody knows that these stay as they are
        refuse_lasting(joined(sets, to=table.frame))
    shuffled = table.frame.repartition(3)._jdf.queryExecution().executedPlan()
    with pytest.raises(NotStanding):
        refuse_lasting(shuffled, [table])
