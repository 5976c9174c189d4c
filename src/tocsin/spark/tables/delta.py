"""Delta tables, one for each dataset: written by Spark, for Spark and every other engine.

A flush writes its records and the position that they reach in one commit, so that one which is
repeated, or comes late from a cluster that lost its lease, changes nothing: it replaces the records
of its range by themselves. OPTIMIZE merges small files; where keys are merged, neighbours are
replaced by what is left of them. VACUUM deletes what was replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from tocsin import durable
from tocsin.errors import Unavailable
from tocsin.model import Dataset
from tocsin.protocol.columns import POSITION
from tocsin.spark.failures import reason
from tocsin.spark.records import quoted, schema_of
from tocsin.spark.tables.compaction import Compaction, merges_keys
from tocsin.spark.tables.merging import merged
from tocsin.spark.tables.session import FIRST_COLUMNS, delta_session, moved
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import Stored
from tocsin.storage.tables.address import FIELD, LOG
from tocsin.storage.tables.delta import DeltaFiles

log = structlog.get_logger()

_HOUR_S = 3600.0
_AGAIN_S = 900.0  # garbage that is too young is looked at again


class DeltaMedium:
    def __init__(
        self,
        spark: SparkSession,
        files: DeltaFiles,
        datasets: Callable[[], Iterable[Dataset]],
    ) -> None:
        """`datasets` are those that there are: tables of others are deleted in time."""
        self._spark = spark
        self._session = delta_session(spark)
        self._files = files
        self._datasets = datasets
        self._address = files.address
        self._vacuumed: dict[str, float] = {}  # when there was garbage left that was too young

    def stored(self, dataset: Dataset, *, anew: bool = False) -> Stored:
        return self._files.stored(dataset, anew=anew)

    def frame(self, dataset: Dataset, files: Sequence[DataFile]) -> DataFrame:
        paths = [self._address.of(file.path) for file in files]
        return self._spark.read.schema(schema_of(dataset)).parquet(*paths)

    def append(self, dataset: Dataset, records: DataFrame, first: int, end: int) -> None:
        writer = (
            _rewriting(records, self._session)
            .option("txnAppId", self._files.application(dataset))
            .option("txnVersion", end)
        )
        if self.stored(dataset).end is None:  # whatever there is was another dataset's
            writer = writer.option("overwriteSchema", "true")
            self._files.prepare(dataset.name)
        else:
            writer = writer.option("replaceWhere", _between(first, end))
        with self._changing(dataset):
            writer.save(self._address.of(dataset.name))

    def compact(self, dataset: Dataset, stored: Stored, compaction: Compaction) -> None:
        run = compaction.run
        with self._changing(dataset):
            if compaction.expired:
                ranges = [_between(f.first_position, f.end_position) for f in compaction.expired]
                self._table(dataset.name).delete(" OR ".join(ranges))
            if run and merges_keys(dataset):
                records = merged(self.frame(dataset, run), dataset, compaction.oldest_us)
                where = _between(run[0].first_position, run[-1].end_position)
                writer = _rewriting(records, self._session).option("replaceWhere", where)
                writer.save(self._address.of(dataset.name))
            elif run:
                self._table(dataset.name).optimize().executeCompaction()

    def drop(self, dataset: Dataset) -> None:
        """The table stays, empty, for whoever still reads what it had."""
        if self.stored(dataset).end is not None:
            with self._changing(dataset):
                self._table(dataset.name).delete()
            self._files.note_dropped(dataset.name)
        self._files.forget(dataset.name)

    def sweep(self, before: float) -> int:
        datasets = list(self._datasets())
        count = self._files.delete_dropped(before, {dataset.name for dataset in datasets})
        for dataset in datasets:
            self.stored(dataset, anew=True)
            tried = self._vacuumed.get(dataset.name)
            if tried is not None and before < tried + _AGAIN_S:
                continue
            garbage = self._garbage(dataset)
            if garbage:
                self._vacuum(dataset, before)
                left = self._garbage(dataset)
                count += len(garbage - left)
                if left:
                    self._vacuumed[dataset.name] = before
        return count

    def _garbage(self, dataset: Dataset) -> set[str]:
        kept = self._files.kept(dataset)
        return set(kept).difference(file.path for file in self.stored(dataset).files)

    def _vacuum(self, dataset: Dataset, before: float) -> None:
        """What is older than `before` by Java's clock, which somebody may have set. Of an age in
        hours Delta takes the nearest whole number: 0 for ten minutes, which would be everything."""
        hours = ceil(max(0.0, time.time() - before) / _HOUR_S)
        with self._changing(dataset):
            self._table(dataset.name).vacuum(float(hours))

    def _table(self, name: str) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        java = self._session._jsparkSession
        return jvm.io.delta.tables.DeltaTable.forPath(java, self._address.of(name))

    @contextmanager
    def _changing(self, dataset: Dataset) -> Iterator[None]:
        """Afterwards everybody here sees it, and it survives a power cut."""
        before = {file.path for file in self.stored(dataset).files}
        try:
            yield
        except (PySparkException, Py4JError) as error:
            self._files.forget(dataset.name)
            raise Unavailable(
                f"the table {self._address.of(dataset.name)} cannot be written: {reason(error)}",
                field=FIELD,
                hint="look at what `tables` names, and at the keys that reach it",
            ) from error
        stored = self.stored(dataset, anew=True)
        if self._address.directory is not None:
            self._sync(dataset, [f.path for f in stored.files if f.path not in before])

    def _sync(self, dataset: Dataset, added: Sequence[str]) -> None:
        """Object stores and HDFS do that by themselves."""
        directory = self._address.directory
        assert directory is not None
        for file in added:
            durable.sync(directory / file)
        version = self._files.version(dataset)
        table = directory / dataset.name
        for path in (table / LOG / f"{version:020d}.json", table / LOG, table, table.parent):
            durable.sync(path)


def _rewriting(records: DataFrame, session: SparkSession) -> DataFrameWriter:
    """One file takes the place of what the writer says."""
    columns = [*FIRST_COLUMNS, *(name for name in records.columns if name not in FIRST_COLUMNS)]
    ordered = records.select(*map(quoted, columns))
    return moved(ordered.coalesce(1), session).write.format("delta").mode("overwrite")


def _between(first: int, end: int) -> str:
    return f"({POSITION} >= {first} AND {POSITION} < {end})"
