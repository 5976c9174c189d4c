"""The Spark data source `tocsin_log`: the publication log as one stream of (dataset, line) rows.

Runs in a Python worker beside Spark's driver, so it sees the log only through a `Reader`. The
cluster tells it which datasets matter through the interest file, {dataset: start position}, which
is replaced whenever that set changes.

An offset is {dataset: end}. When a batch begins to read a dataset anywhere but at its previous end
(it is new, or came back after a while without interest), the offset also says from where, under
`_from`: a replayed batch must not depend on what the interest file says by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from tocsin.storage.log import Reader, open_reader

NAME = "tocsin_log"
SCHEMA = "dataset STRING, line STRING"
FROM = "_from"

Row = tuple[str, str]
Offset = dict[str, Any]


def register_log_source(spark: SparkSession) -> None:
    """Make `spark.readStream.format("tocsin_log")` known to a session."""
    spark.dataSource.register(LogSource)


def ends_of(offset: Mapping[str, Any]) -> dict[str, int]:
    """Up to where a stream with this offset has read each dataset."""
    return {name: end for name, end in offset.items() if name != FROM}


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> LogStreamReader:
        return LogStreamReader(
            open_reader(self.options["log"]),
            Path(self.options["interest"]),
            int(self.options.get("batch_bytes", 8 * 1024 * 1024)),
        )


class LogStreamReader(SimpleDataSourceStreamReader):
    def __init__(self, log: Reader, interest: Path, batch_bytes: int) -> None:
        self._log = log
        self._interest_path = interest
        self._batch_bytes = batch_bytes
        self._interest: dict[str, int] = {}
        self._interest_version: tuple[int, int] | None = None

    def initialOffset(self) -> Offset:
        return {}

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """What is new, at most `batch_bytes` of it; the same offset again when there is nothing."""
        known = ends_of(start)
        starts = {
            dataset: max(known.get(dataset, wanted), wanted)
            for dataset, wanted in self._current_interest().items()
        }
        found = self._log.news(starts, self._batch_bytes)
        if not found:
            return iter(()), start
        rows = [(dataset, body.decode()) for dataset in found for _, body in found[dataset].lines]
        offset: Offset = known | {dataset: new.end for dataset, new in found.items()}
        begins = {name: starts[name] for name in found if known.get(name) != starts[name]}
        return iter(rows), (offset | {FROM: begins} if begins else offset)

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:
        """The rows of a batch once more, exactly."""
        if start == end:
            return  # `_from` tells how this state was reached, not what follows it
        known, begins = ends_of(start), end.get(FROM, {})
        for dataset, upto in ends_of(end).items():
            begin = begins.get(dataset, known.get(dataset, 0))
            for _, body in self._log.lines(dataset, begin, upto):
                yield dataset, body.decode()

    def commit(self, end: Offset) -> None:
        """Nothing: the cluster retires segments itself, once they are stored as well."""

    def _current_interest(self) -> dict[str, int]:
        """The interest file, read again only when it was replaced."""
        try:
            stat = os.stat(self._interest_path)
            version = (stat.st_ino, stat.st_mtime_ns)
            if version != self._interest_version:
                raw = self._interest_path.read_bytes()
                self._interest = msgspec.json.decode(raw, type=dict[str, int])
                self._interest_version = version
        except FileNotFoundError:
            return {}
        return self._interest
