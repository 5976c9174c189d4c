"""Small frames kept on the driver: Spark then plans joins with them without running jobs of their
own, which is most of the cost of a run over a few hundred rows.

Only for what is known to be small; everything else stays distributed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

SMALL_BYTES = 4 * 1024 * 1024  # of Parquet and log text: below it a frame is worth keeping local
SMALL_ROWS = 5000


def localised(frame: DataFrame, spark: SparkSession | None = None) -> DataFrame:
    """The same rows as a local relation."""
    return (spark or frame.sparkSession).createDataFrame(frame.toArrow(), frame.schema)
