"""The Spark session that writes Delta tables, beside the one that everything else runs in.

Delta needs extensions of Spark's, and its parser takes no parameters (`sql(text, args=…)`), which
channels' queries have; its rules would look at every plan besides. So Delta has a session of its
own on the same Spark.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tocsin.protocol.columns import POSITION, RECEIVED_AT
from tocsin.spark.tables.compaction import FULL_BYTES
from tocsin.storage.tables.address import TableAddress

FIRST_COLUMNS = (POSITION, RECEIVED_AT)
_DELTA = "spark.databricks.delta"
_MERGED_BYTES = 8 * FULL_BYTES

_FIXED = {
    # A table's state is read by jobs of so many tasks; by itself Delta would take 50.
    f"{_DELTA}.snapshotPartitions": "2",
    # What is merged, and up to which size.
    f"{_DELTA}.optimize.minFileSize": str(FULL_BYTES),
    f"{_DELTA}.optimize.maxFileSize": str(_MERGED_BYTES),
    # How long replaced files stay is ours to know: no query runs for a week.
    f"{_DELTA}.retentionDurationCheck.enabled": "false",
    # VACUUM lists a table by so many tasks; by itself Spark would take 10,000, for half a minute.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # Of every file its positions and times: the first columns. Named as dataSkippingStatsColumns
    # they are lost on deltalake when there is a STRUCT. Files are whole and their columns have
    # their own names, so that everybody can read them.
    f"{_DELTA}.properties.defaults.dataSkippingNumIndexedCols": str(len(FIRST_COLUMNS)),
    f"{_DELTA}.properties.defaults.enableDeletionVectors": "false",
    f"{_DELTA}.properties.defaults.columnMapping.mode": "none",
    # A flush every ten seconds is 8640 commits a day, which are listed until they expire.
    f"{_DELTA}.properties.defaults.logRetentionDuration": "interval 1 days",
}


_EXTENSIONS = "spark.sql.extensions"
_OF_DELTA_ALONE = {
    _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def delta_session(spark: SparkSession) -> SparkSession:
    context: Any = spark.sparkContext
    conf, options = context._jsc.sc().conf(), context._jvm.java.util.HashMap()
    for name, value in _OF_DELTA_ALONE.items():
        options.put(name, value)
    conf.set(_EXTENSIONS, _OF_DELTA_ALONE[_EXTENSIONS])  # a new session looks for them there
    try:
        kind = SparkSession._get_j_spark_session_class(context._jvm)
        return SparkSession(context, kind(context._jsc.sc(), options))
    finally:
        conf.remove(_EXTENSIONS)


def moved(records: DataFrame, session: SparkSession) -> DataFrame:
    """The same rows, as a frame of another session: planned there, executed here."""
    execution: Any = records._jdf.queryExecution()
    schema, java = records._jdf.schema(), session._jsparkSession
    return DataFrame(java.internalCreateDataFrame(execution.toRdd(), schema, False), session)


def delta_conf(address: TableAddress) -> dict[str, str]:
    return _FIXED | address.spark_conf()
