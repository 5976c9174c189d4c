"""Where attachments are mentioned: the records of the log, those that are Parquet, and results.

Mentions move: what was in the log becomes Parquet, what records hold comes into results; each is
copied before it goes. So they are looked for in that very order: what has left a place before we
came there is found further on. A file that is no longer part of its dataset counts as well until it
is deleted, since a run that began before may still make results of it (`spark.tables`).
All of it waits for disks; whatever cannot be read is raised, and nothing is collected then.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.errors import NotFound
from tocsin.intake.validator import mentioned
from tocsin.model import Dataset, attachments_of
from tocsin.storage.log import PublicationLog, open_reader
from tocsin.storage.store.store import Store
from tocsin.storage.tables import Folder, TableFiles

_ROWS = 65_536
_RESULTS_AT_ONCE = 1000


class Mentions:
    def __init__(self, store: Store, log: PublicationLog, tables: TableFiles) -> None:
        self._store = store
        self._log = log
        self._tables = tables

    def look(self) -> set[str]:
        """Every attachment that something mentions."""
        datasets = [
            dataset for dataset in self._store.catalog.datasets() if attachments_of(dataset)
        ]
        in_use: set[str] = set()
        for source in (self._logged, self._stored, self._results):
            for ids in source(datasets):
                in_use |= ids
        return in_use

    def _logged(self, datasets: list[Dataset]) -> Iterator[set[str]]:
        reader = open_reader(self._log.address)
        try:
            for name in [dataset.name for dataset in datasets]:
                end = self._log.ends().get(name, 0)
                try:
                    start = reader.first_position(name)
                except NotFound:  # it is being made or dropped
                    continue
                for _, line in reader.lines(name, start, end):
                    yield mentioned(line)
        finally:
            reader.close()

    def _stored(self, datasets: list[Dataset]) -> Iterator[set[str]]:
        for dataset in datasets:
            # Those in use first: one that leaves meanwhile is among the others then.
            for path in list(self._tables.kept(dataset)):
                yield from _in_file(self._tables.folder, path, attachments_of(dataset))

    def _results(self, datasets: list[Dataset]) -> Iterator[set[str]]:
        names = {dataset.name for dataset in datasets}
        channels = [
            channel.name
            for channel in self._store.catalog.channels()
            if names.intersection(channel.reads)
        ]
        number = 0
        while rows := self._store.results.payloads(channels, number, _RESULTS_AT_ONCE):
            number = rows[-1][0]
            for _, payload in rows:
                yield mentioned(payload)


def _in_file(folder: Folder, path: str, columns: tuple[str, ...]) -> Iterator[set[str]]:
    with pq.ParquetFile(folder.path(path), filesystem=folder.filesystem) as file:
        # A dataset that was made anew may have had other columns before.
        there = [
            column for column in columns if pa.types.is_struct(_type(file.schema_arrow, column))
        ]
        if not there:
            return
        fields = [f"{column}.id" for column in there]
        for batch in file.iter_batches(batch_size=_ROWS, columns=fields):
            for column in there:
                yield set(batch.column(column).field("id").drop_null().to_pylist())


def _type(schema: pa.Schema, column: str) -> pa.DataType:
    return schema.field(column).type if column in schema.names else pa.null()
