"""Make a backup of a system beside the cluster that runs it, which does not notice.

First the store, in one reading transaction; then what its tables name: Parquet files; then what
real-time mode has found of the log, and the log from there to its ends, which lie behind every
position that the store and matches know; then attachments, which were uploaded before anything
mentioned them. Files do not change, and what is no longer used stays for a while. If something has
left in spite of that, a new round begins, and copies what has come since.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Table, select

from tocsin import __version__, durable
from tocsin.errors import Conflict, Damaged, Gone, SettingError, Unavailable
from tocsin.model import Dataset
from tocsin.protocol import backup
from tocsin.protocol.backup import DatasetCut, Manifest, Source, StoredFile, TableRows
from tocsin.storage.backup import files
from tocsin.storage.backup.log_copies import LogSource, SegmentSource
from tocsin.storage.backup.places import Places
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.backup.table_copies import DeltaSource
from tocsin.storage.content import open_medium
from tocsin.storage.identity import Mark
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store import dump, schema
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables.address import TableAddress

ROUNDS = 5
_FOLDERS = ("store", "datasets", "tables", "matches", "log", "attachments", "system")
_TRIES = 200  # to see a feed between two of its steps
_DATA_FILE = [schema.dataset_files.c[name] for name in DataFile.__struct_fields__]


class _Contents(Struct, frozen=True):
    """What the store says that a round has to copy."""

    incarnation: int
    taken: dict[str, int]  # of matches, by topic
    datasets: list[Dataset]
    stored: dict[str, list[DataFile]]
    stored_ends: dict[str, int]


class Backup:
    """Of a system, into a directory that is empty, or has an unfinished backup of the same one."""

    def __init__(self, places: Places, root: Path, progress: Progress) -> None:
        places.require_store()
        self._places = places
        self._shown = dump.shown(places.store)
        self._root = root
        self._progress = progress
        self._log = _log_source(places)
        self._tables = _table_source(places)
        self._files: dict[str, StoredFile] = {}
        self._rows: dict[str, int] = {}  # of each table

    def make(self) -> Manifest:
        began_at = time.time()
        source = self._begin()
        for tries_left in reversed(range(ROUNDS)):
            self._files.clear()
            try:
                manifest = self._round(source, began_at)
            except (Gone, FileNotFoundError) as error:
                if not tries_left:
                    raise Unavailable(
                        f"the system changes faster than it is copied: {error}",
                        field="directory",
                        hint="repeat the command: what was copied stays, and is not copied again",
                    ) from None
            else:
                break
        known = {self._root / path for path in self._files}
        for folder in _FOLDERS:
            files.keep_only(self._root / folder, known)
        files.clear(self._root)
        durable.write(self._root / backup.MANIFEST, backup.encode_manifest(manifest))
        (self._root / backup.STARTED).unlink()
        return manifest

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> Backup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> Source:
        """Say whose backup this will be, before there is anything of it."""
        with dump.snapshot(self._places.store) as connection:
            id = str(dump.meta_value(connection, "id"))
        source = Source(id, self._shown, self._log.kind)
        durable.make_directory(self._root)
        if (self._root / backup.MANIFEST).exists():
            raise Conflict(
                f"there is a backup in {self._root} already",
                field="directory",
                hint="name a new directory; tocsin restore --check shows what is in this one",
            )
        started = self._root / backup.STARTED
        if started.exists():
            _require_same(msgspec.json.decode(started.read_bytes(), type=Source), source, started)
        elif not all(durable.is_unfinished(path) for path in self._root.iterdir()):
            raise SettingError(
                f"{self._root} is not empty, and has no backup",
                field="directory",
                hint="name a new directory",
            )
        durable.write(started, msgspec.json.encode(source))
        return source

    def _round(self, source: Source, began_at: float) -> Manifest:
        if self._tables is not None:
            # Before the store: its channels may still ask for what a later version has merged.
            with dump.snapshot(self._places.store) as connection:
                datasets = _contents(connection).datasets
            self._tables.look(datasets)
        with dump.snapshot(self._places.store) as connection:
            for table in watched(self._progress, "tables of the store", dump.TABLES):
                self._write_rows(table, dump.rows(connection, table))
            contents = _contents(connection)
        if self._tables is None:
            self._copy_stored(contents)
        else:
            contents = self._copy_tables(self._tables, contents)
        matches = self._log.copy_matches(contents.taken, self._root / backup.MATCHES)
        if matches:
            self._note(backup.MATCHES)
        last_us = self._log.last_us()
        cuts = self._copy_logs(contents)
        attachments = self._copy_attachments()
        self._copy_system_files()
        return Manifest(
            format=backup.FORMAT,
            product=__version__,
            schema=schema.SCHEMA_VERSION,
            source=source,
            incarnation=contents.incarnation,
            began_at=began_at,
            ended_at=time.time(),
            last_us=last_us,
            tables=[TableRows(name, count) for name, count in self._rows.items()],
            datasets=cuts,
            attachments=attachments,
            matches=matches,
            files=sorted(self._files.values(), key=lambda file: file.path),
            delta=self._tables is not None,
        )

    def _copy_stored(self, contents: _Contents) -> None:
        paths = [file.path for stored in contents.stored.values() for file in stored]
        for path in watched(self._progress, "Parquet files", paths):
            source = self._places.datasets / path
            self._copy_once(
                f"datasets/{path}", source.stat().st_size, partial(files.pieces, source)
            )

    def _copy_tables(self, tables: DeltaSource, contents: _Contents) -> _Contents:
        """What they have stored is what their logs say."""
        for dataset in watched(self._progress, "Delta tables", contents.datasets):
            for path, size_bytes, data in tables.copies(dataset):
                self._copy_once(f"tables/{path}", size_bytes, data)
        stored = {dataset.name: tables.stored(dataset) for dataset in contents.datasets}
        return msgspec.structs.replace(
            contents,
            stored={name: list(part.files) for name, part in stored.items()},
            stored_ends={name: part.end for name, part in stored.items() if part.end is not None},
        )

    def _copy_logs(self, contents: _Contents) -> list[DatasetCut]:
        """What feeds had taken is said anew: of the moment at which each log ended."""
        cuts, taken = [], []
        for dataset in watched(self._progress, "logs of datasets", contents.datasets):
            end, rows = self._end(dataset)
            taken += rows
            name = dataset.name
            folder = self._root / "log" / name
            files.keep_only(folder, set())
            stored_end = contents.stored_ends.get(name)
            copied = self._log.copy(name, stored_end, end, folder)
            for path in sorted(folder.iterdir()):
                self._note(path.relative_to(self._root).as_posix())
            stored = contents.stored[name]
            stored_rows = sum(file.rows for file in stored)
            cuts.append(
                DatasetCut(
                    name,
                    first=copied.first,
                    stored_end=copied.stored_end,
                    end=end,
                    log_records=copied.records,
                    stored_files=len(stored),
                    stored_rows=stored_rows,
                )
            )
        self._write_rows(schema.feeds, sorted(taken))
        return cuts

    def _end(self, dataset: Dataset) -> tuple[int, list[bytes]]:
        """Where its log ends, and what its feed had taken then: what is noted as taken is in the
        log, and what is not will be taken again."""
        if dataset.source is None:
            return self._log.end(dataset.name), []
        for _ in range(_TRIES):
            before = self._taken(dataset.name)
            end = self._log.end(dataset.name)
            if self._taken(dataset.name) == before:
                return end, before
        raise Unavailable(
            f"the feed of dataset {dataset.name} never rests", hint="repeat the command"
        )

    def _taken(self, dataset: str) -> list[bytes]:
        with dump.snapshot(self._places.store) as connection:
            lines = list(dump.rows(connection, schema.feeds))
        return [line for line in lines if msgspec.json.decode(line)[0] == dataset]

    def _copy_attachments(self) -> int:
        medium = open_medium(self._places.attachments, self._places.data)
        kept = list(medium.kept())
        count = 0
        for id, size_bytes, _ in watched(self._progress, "attachments", kept):
            path = f"attachments/{id[:2]}/{id[2:4]}/{id}"
            try:
                self._copy_once(path, size_bytes, partial(medium.read, id, 0, size_bytes))
            except FileNotFoundError:  # collected meanwhile: nothing mentions it
                continue
            count += 1
            if self._files[path].sha256 != id:
                (self._root / path).unlink()
                raise Damaged(
                    f"attachment {id} is damaged in {medium.shown}",
                    hint="read it once: it is dropped then; upload the same bytes again",
                )
        return count

    def _copy_system_files(self) -> None:
        for name, path in self._places.system_files.items():
            if path.exists():
                self._write(f"system/{name}", files.pieces(path), mode=durable.OWNER)

    def _copy_once(self, path: str, size_bytes: int, data: Callable[[], Iterator[bytes]]) -> None:
        """A file that never changes: an earlier attempt may have copied it, whole."""
        target = self._root / path
        if target.exists() and target.stat().st_size == size_bytes:
            self._note(path)
        else:
            self._write(path, data())

    def _write_rows(self, table: Table, rows: Iterable[bytes]) -> None:
        numbers = itertools.count()
        lines = (line for line, _ in zip(rows, numbers, strict=False))
        self._write(f"store/{table.name}.jsonl", lines)
        self._rows[str(table.name)] = next(numbers)

    def _write(self, path: str, data: Iterable[bytes], *, mode: int = durable.EVERYBODY) -> None:
        size_bytes, sha256 = files.write(self._root / path, data, mode=mode)
        self._files[path] = StoredFile(path, size_bytes, sha256)

    def _note(self, path: str) -> None:
        self._files[path] = files.described(self._root, path)


def _log_source(places: Places) -> LogSource:
    if places.logs_in_files:
        return SegmentSource(Path(places.log))
    from tocsin.storage.backup.topic_copies import TopicSource

    return TopicSource(KafkaAddress.parse(places.log))


def _table_source(places: Places) -> DeltaSource | None:
    """SettingError unless `tables` names what the store says."""
    with dump.snapshot(places.store) as connection:
        known = dump.meta_value(connection, schema.META_TABLES) or ""
        id = str(dump.meta_value(connection, "id"))
    given = TableAddress.parse(places.tables).shown if places.tables else ""
    if given != known:
        raise SettingError(
            f"the datasets of {dump.shown(places.store)} are"
            f" {f'tables at {known}' if known else 'Parquet files in its data directory'}",
            field="tables",
            hint=f"say --tables {known}" if known else "leave `tables` empty",
        )
    return DeltaSource(places.tables, Mark(id, dump.shown(places.store))) if known else None


def _contents(connection: Connection) -> _Contents:
    bodies = connection.execute(select(schema.datasets.c.body).order_by(schema.datasets.c.name))
    datasets = [msgspec.json.decode(body, type=Dataset) for body in bodies.scalars()]
    stored: dict[str, list[DataFile]] = {dataset.name: [] for dataset in datasets}
    live = schema.dataset_files.c.retired_at.is_(None)
    order = schema.dataset_files.c.first_position
    query = select(schema.dataset_files.c.dataset, *_DATA_FILE).where(live).order_by(order)
    for name, *fields in connection.execute(query):
        stored.setdefault(name, []).append(DataFile(*fields))
    ends = {name: end for name, end in connection.execute(select(schema.dataset_ends))}
    matches = schema.match_partitions.c
    rows = connection.execute(select(matches.topic, matches.up_to).where(matches.partition == 0))
    taken = {topic: up_to for topic, up_to in rows}
    incarnation = dump.meta_value(connection, "incarnation")
    return _Contents(int(incarnation or 0), taken, datasets, stored, ends)


def _require_same(theirs: Source, ours: Source, started: Path) -> None:
    if theirs.id != ours.id:
        raise SettingError(
            f"{started.parent} has an unfinished backup of {theirs.store} (identity"
            f" {theirs.id[:8]}), and this is {ours.store} (identity {ours.id[:8]})",
            field="directory",
            hint="name another directory",
        )
