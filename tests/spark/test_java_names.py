"""Small queries do not ask Java again and again what its names stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import REFL_GET_UNKNOWN_SUB_COMMAND_NAME, REFLECTION_COMMAND_NAME
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

ASKS = REFLECTION_COMMAND_NAME + REFL_GET_UNKNOWN_SUB_COMMAND_NAME


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that Java is asked for."""
    client: Any = spark._jvm._gateway_client  # type: ignore[union-attr]
    send: Callable[..., str] = client.send_command
    names: list[str] = []

    def send_command(command: str, *args: Any, **kwargs: Any) -> str:
        if command.startswith(ASKS):
            names.append(command.removeprefix(ASKS).split("\n")[0])
        return send(command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", send_command)
    return names


def test_a_query_asks_for_no_name(spark: SparkSession, asked: list[str]) -> None:
    frame = spark.range(3).select((F.col("id") + F.lit(1)).alias("next"), F.upper(F.lit("a")))
    assert [row["next"] for row in frame.where(F.col("next") > 1).collect()] == [2, 3]
    frame.createOrReplaceTempView("kept_names")
    assert spark.sql("SELECT next FROM kept_names WHERE next > :least", {"least": 2}).count() == 1
    assert asked == []


def test_names_that_are_not_kept_are_still_found(spark: SparkSession, asked: list[str]) -> None:
    jvm: Any = spark._jvm
    assert jvm.java.lang.Math.max(2, 3) == 3
    assert "java.lang.Math" in asked
