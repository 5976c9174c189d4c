"""A small dataset with a primary key, moved on by what came since: planned once per dataset, and
asked with other rows each time (see `standing`). Knows neither log nor files.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tocsin.model import Dataset
from tocsin.spark.local import collected, local_relation
from tocsin.spark.records import keep_newest
from tocsin.spark.standing import FilledTable, NotStanding, refuse_lasting, standing_session


class Growth:
    """One call at a time. NotStanding: the rows are not on the driver, or there is no room."""

    def __init__(self, spark: SparkSession, dataset: Dataset, like: DataFrame) -> None:
        session = standing_session(spark)
        self._spark = spark
        self._tables = FilledTable(session, like), FilledTable(session, like)
        known, more = (table.frame for table in self._tables)
        # In one partition, or each key's rows would be brought together by a shuffle.
        grown = known.unionAll(more).coalesce(1).transform(keep_newest, dataset)
        execution = grown._jdf.queryExecution()
        refuse_lasting(execution.executedPlan())
        rdd, schema = execution.toRdd(), grown._jdf.schema()
        self._rows: Any = session._jsparkSession.internalCreateDataFrame(rdd, schema, False)

    def of(self, known: DataFrame, more: DataFrame) -> DataFrame:
        """The newest record of each key."""
        try:
            for table, frame in zip(self._tables, (known, more), strict=True):
                table.fill(frame)
            return collected(self._spark, self._rows, local_relation(more).output())
        except Py4JJavaError as error:  # Spark may have dropped what lay in a table
            for table in self._tables:
                table.close()
            raise NotStanding from error
