"""The manifest: which Parquet files make up each dataset, and up to which position of its log.

Knows no file system: a retired file is deleted by whoever asks for it, who then forgets it here.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from tocsin.errors import Conflict, InvalidInput
from tocsin.storage.store import schema
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.subscription_rows import chunks

_files = schema.dataset_files
_ends = schema.dataset_ends
_LIVE = _files.c.retired_at.is_(None)


class DatasetFiles:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.owner = database.id

    @reads
    def files(self, connection: Connection, dataset: str) -> tuple[DataFile, ...]:
        """The live files by position."""
        columns = [_files.c[name] for name in DataFile.__struct_fields__]
        rows = connection.execute(
            select(*columns)
            .where(_files.c.dataset == dataset, _LIVE)
            .order_by(_files.c.first_position, _files.c.path)
        )
        return tuple(DataFile(*row) for row in rows)

    @reads
    def paths(self, connection: Connection) -> list[tuple[str, bool]]:
        """Every file that is known, and whether it is live."""
        rows = connection.execute(select(_files.c.path, _files.c.retired_at))
        return [(path, retired_at is None) for path, retired_at in rows]

    @reads
    def stored_end(self, connection: Connection, dataset: str) -> int:
        """Up to which position (exclusive) the dataset was ever stored in files."""
        return _stored_end(connection, dataset) or 0

    @writes
    def replace(
        self, write: Write, dataset: str, remove: Sequence[str], add: Sequence[DataFile]
    ) -> None:
        """Retire some files and add others in one step; Conflict if one to retire is not live."""
        connection = write.connection
        retired = 0
        for chunk in chunks(sorted(set(remove))):
            chosen = (_files.c.dataset == dataset) & _files.c.path.in_(chunk) & _LIVE
            done = connection.execute(update(_files).where(chosen).values(retired_at=write.now))
            retired += done.rowcount
        if retired != len(set(remove)):
            raise Conflict(
                f"the files of dataset {dataset} have changed meanwhile",
                field="dataset",
                hint="read them again and repeat",
            )
        _refuse_known(connection, dataset, [file.path for file in add])
        if add:
            rows = [{**msgspec.structs.asdict(file), "dataset": dataset} for file in add]
            connection.execute(insert(_files), rows)
            _raise_end(connection, dataset, max(file.end_position for file in add))

    @reads
    def retired(self, connection: Connection, before: float) -> list[tuple[str, str]]:
        """(dataset, path) of files that were retired before that time."""
        rows = connection.execute(
            select(_files.c.dataset, _files.c.path)
            .where(_files.c.retired_at < before)
            .order_by(_files.c.retired_at, _files.c.path)
        )
        return [(dataset, path) for dataset, path in rows]

    @writes
    def forget(self, write: Write, dataset: str, path: str) -> None:
        """The retired file is deleted from disk: forget it. A live file stays."""
        gone = (_files.c.dataset == dataset) & (_files.c.path == path) & ~_LIVE
        write.connection.execute(delete(_files).where(gone))

    @writes
    def drop(self, write: Write, dataset: str) -> None:
        """Retire all files; a new dataset of that name starts at position 0."""
        write.connection.execute(
            update(_files).where(_files.c.dataset == dataset, _LIVE).values(retired_at=write.now)
        )
        write.connection.execute(delete(_ends).where(_ends.c.dataset == dataset))


def _stored_end(connection: Connection, dataset: str) -> int | None:
    return connection.execute(select(_ends.c.stored_end).where(_ends.c.dataset == dataset)).scalar()


def _raise_end(connection: Connection, dataset: str, end: int) -> None:
    known = _stored_end(connection, dataset)
    if known is None:
        connection.execute(insert(_ends), {"dataset": dataset, "stored_end": end})
    elif end > known:
        connection.execute(update(_ends).where(_ends.c.dataset == dataset).values(stored_end=end))


def _refuse_known(connection: Connection, dataset: str, paths: list[str]) -> None:
    """A path that returned while its retired namesake waits for deletion would be deleted too."""
    long = [path for path in paths if len(path) > schema.PATH_CHARACTERS]
    if long:
        raise InvalidInput(
            f"a file's path has at most {schema.PATH_CHARACTERS} characters", field="path"
        )
    for chunk in chunks(paths):
        known = (_files.c.dataset == dataset) & _files.c.path.in_(chunk)
        taken = connection.execute(select(_files.c.path).where(known).limit(1)).scalar()
        if taken is not None:
            raise Conflict(
                f"dataset {dataset} has or had a file {taken}",
                field="path",
                hint="name each file anew",
            )
