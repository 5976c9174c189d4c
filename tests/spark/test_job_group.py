"""Only the jobs of a group are cancelled with it. That they end is tested with runs of channels."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tocsin.spark.job_group import JobGroup, time_limit

pytestmark = pytest.mark.spark


def test_work_of_others_goes_on(spark: SparkSession) -> None:
    with JobGroup(spark, "first") as group:
        assert spark.range(10).repartition(2).count() == 10
        assert group.tasks() == []
    with time_limit(spark, "second", 30.0):
        group.cancel()
        assert spark.range(10).repartition(2).count() == 10
