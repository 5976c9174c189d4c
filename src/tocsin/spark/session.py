"""The Spark session with the settings that bring a micro-batch from 240 ms to about 50.

Knows nothing of datasets or channels.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tocsin.settings import Settings
from tocsin.spark.class_archive import archive_options
from tocsin.spark.jars import (
    BARE_LOCAL_FS_CLASS,
    find_bare_local_fs,
    require_connector_jars,
    table_jar_sets,
)
from tocsin.spark.java import find_java, require_java
from tocsin.spark.java_environment import java_sees_what_is_allowed
from tocsin.spark.java_names import keep_names
from tocsin.spark.jdbc import jdbc_of
from tocsin.spark.tables.session import delta_conf
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.tables.address import TableAddress

__all__ = ["build_session", "find_java", "local_cores", "session_conf"]

_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# They print each refused query as JSON; whoever asked gets an error of ours.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# What `channels/allowed.py` refuses is off in Spark as well. Texts are read as sqlglot reads them.
_CLOSED = {
    "spark.sql.runSQLOnFiles": "false",  # FROM text.`/etc/passwd`
    "spark.sql.variable.substitute": "false",  # '${env:HOME}' inside any text
    "spark.sql.scripting.enabled": "false",
    "spark.sql.operatorPipeSyntaxEnabled": "false",
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
}
_VERBOSE_LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
)
_QUIET = "-Dlog4j2.level=ERROR -Dlog4j.rootLogger.level=ERROR"


def build_session(settings: Settings, *, app_name: str = "tocsin") -> SparkSession:
    """A session on `settings.master`; stopping it is the caller's."""
    os.environ["JAVA_HOME"] = str(require_java())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need our packages
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(_master(settings)).appName(app_name)
    for key, value in session_conf(settings).items():
        builder = builder.config(key, value)
    with java_sees_what_is_allowed():
        spark = builder.getOrCreate()
    keep_names(spark._jvm)
    spark.sparkContext.setLogLevel("ERROR")
    _quieten(spark)
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    return spark


def _quieten(spark: SparkSession) -> None:
    """A task that fails is reported by whoever asked for it, not by pages of Java's stack."""
    logging = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in _VERBOSE_LOGGERS:
        logging.core.config.Configurator.setLevel(name, logging.Level.FATAL)


_FIXED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A task that finds no memory fails, and with it one run; by itself Spark would end Java.
    "spark.executor.killOnFatalError.depth": "0",
    # Channels run side by side: a long one must not hold the short ones back.
    "spark.scheduler.mode": "FAIR",
    # Checkpoints: plain renames on a local disk, no second checksum file for each.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1ms",
    # An idle stream is no news.
    "spark.sql.streaming.noDataProgressEventInterval": "60s",
    "spark.sql.streaming.metricsEnabled": "false",
    # Table files are explicit and written once: nothing to list, merge or summarise.
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # has statistics
    # Table files are written aside and renamed by us: the committer need not be careful too.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.caseSensitive": "false",
    # A record that a query cannot compute with (1/0, a bad cast) gives NULL: an error would
    # take the whole run, and with it everybody else's results.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Our own line numbers tell nobody anything, and noting them is most of what a column costs.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
}


def session_conf(settings: Settings) -> dict[str, str]:
    """Every Spark setting we choose, and why."""
    java_options = (_QUIET, archive_options(), settings.java_options)
    conf = {
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": " ".join(filter(None, java_options)),
        "spark.executor.extraJavaOptions": f"{_QUIET} {settings.java_options}".strip(),
        "spark.sql.warehouse.dir": str((settings.data / "spark" / "warehouse").resolve()),
        "spark.local.dir": str((settings.data / "spark" / "local").resolve()),
    }
    jars: list[Path] = []
    conf |= _FIXED | _CLOSED | _conf_of_place(settings)
    if is_kafka(settings.log):
        conf["spark.sql.streaming.realTimeMode.minBatchDuration"] = "100ms"  # as our setting says
        jars += require_connector_jars()
    if settings.tables:
        conf |= delta_conf(TableAddress.parse(settings.tables))
        for jar_set in table_jar_sets(settings.tables):
            jars += jar_set.fetch()
    if jars:
        conf["spark.jars"] = ",".join(map(str, jars))
    return conf


def _conf_of_place(settings: Settings) -> dict[str, str]:
    """What depends on where Spark runs: on this machine, or elsewhere."""
    conf: dict[str, str] = {}
    cores = local_cores(settings.master)
    if cores is None:
        # A task that does not end when asked to takes its executor along; here see `job_group`.
        conf["spark.task.reaper.enabled"] = "true"
        conf["spark.task.reaper.killTimeout"] = "30s"
    else:
        # On one machine more partitions than cores only cost scheduling.
        conf["spark.sql.shuffle.partitions"] = str(max(2, cores))
        conf["spark.default.parallelism"] = str(max(2, cores))
        # What comes from the driver is small: one task. Files are still read by all cores.
        conf["spark.sql.leafNodeDefaultParallelism"] = "1"
        conf["spark.sql.files.minPartitionNum"] = str(max(2, cores))
        # Every hash table and every sort takes a page at least: by itself Spark would make that
        # 16 MB to be cleared and collected, for a few hundred rows.
        conf["spark.buffer.pageSize"] = "1m"
        # Re-planning between stages halves the speed of small runs, and has nothing to even out.
        conf["spark.sql.adaptive.enabled"] = "false"
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
        jar = find_bare_local_fs()
        if jar is not None:
            # On the class path, not in spark.jars: Spark needs the class to read that very list.
            conf["spark.driver.extraClassPath"] = str(jar)
            conf["spark.hadoop.fs.file.impl"] = BARE_LOCAL_FS_CLASS
    return conf


def runs_in_real_time(settings: Settings) -> bool:
    """Whether channels may run in real-time mode: records come from Kafka, and Java can read the
    subscriptions."""
    possible = is_kafka(settings.log) and jdbc_of(settings.store) is not None
    return possible and settings.real_time_slots > 0


def _master(settings: Settings) -> str:
    """On one machine: twice as many slots as cores, since a run takes as many as there are cores,
    and a slow one must leave some to others. A query in real-time mode holds a task all the time,
    mostly waiting: each gets a slot beside these."""
    cores = local_cores(settings.master)
    if cores is None:
        return settings.master
    waiting = settings.real_time_slots if runs_in_real_time(settings) else 0
    return f"local[{2 * max(2, cores) + waiting}]"


def local_cores(master: str) -> int | None:
    """How many cores a local master uses; None when the master is elsewhere."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local is None:
        return None
    if local[1] is None:
        return 1
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
