"""A system from a backup: into places that are empty, whole or to be noticed.

A note in the data directory says what is being restored. While it is there no cluster starts, and
the same command goes on to the end. The store comes last, in one transaction. Then everything is
read again and compared with the manifest, and the store begins a new incarnation: brokers and
clients must not take what they know of its future for something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from tocsin import durable
from tocsin.errors import Conflict, Damaged, InvalidInput, NotFound, SettingError
from tocsin.protocol import backup
from tocsin.protocol.backup import Manifest, StoredFile
from tocsin.storage.backup import files, notes
from tocsin.storage.backup.comparison import Compared
from tocsin.storage.backup.log_copies import LogTarget, SegmentTarget
from tocsin.storage.backup.notes import Restoring
from tocsin.storage.backup.places import Places
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.backup.table_copies import target_of
from tocsin.storage.backup.vacancy import require_empty
from tocsin.storage.content import ContentStore, open_content, open_medium
from tocsin.storage.identity import Mark, write_mark
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store import dump, schema
from tocsin.storage.store.database import Database
from tocsin.storage.store.incarnation import Incarnation
from tocsin.storage.tables.address import TableAddress


def read_manifest(root: Path) -> Manifest:
    """Of a whole backup."""
    try:
        manifest = backup.decode_manifest((root / backup.MANIFEST).read_bytes())
    except FileNotFoundError:
        if (root / backup.STARTED).exists():
            raise Conflict(
                f"the backup in {root} is unfinished",
                field="directory",
                hint="repeat tocsin backup: it goes on; or use another backup",
            ) from None
        raise NotFound(
            f"there is no backup in {root}",
            field="directory",
            hint="name the directory that tocsin backup made",
        ) from None
    except msgspec.DecodeError as error:
        raise files.damaged(root, backup.MANIFEST, str(error)) from None
    if manifest.format > backup.FORMAT or manifest.schema != schema.SCHEMA_VERSION:
        raise SettingError(
            f"the backup in {root} was made by Tocsin {manifest.product} (format"
            f" {manifest.format}, tables of version {manifest.schema}), and this one has tables of"
            f" version {schema.SCHEMA_VERSION}",
            field="directory",
            hint=f"restore it with Tocsin {manifest.product}, and start the other one then",
        )
    return manifest


def check(root: Path, manifest: Manifest, progress: Progress) -> None:
    """Damaged if a file of the backup is not what was written."""
    for file in watched(progress, "files", manifest.files):
        files.check(root, file)


class Restore:
    def __init__(self, root: Path, places: Places, progress: Progress) -> None:
        self._root = root
        self._places = places
        self._progress = progress
        self._manifest = read_manifest(root)
        self._mark = Mark(self._manifest.source.id, dump.shown(places.store))
        self._log = _log_target(places, self._manifest, self._mark)
        self._stored = target_of(places, self._manifest, self._mark)

    def run(self) -> list[Compared]:
        """Everything is there when this returns; Damaged if something of it is not."""
        note = self._begin()
        self._copy_attachments()
        self._stored.restore(self._root, self._in(self._stored.folder), self._progress)
        self._log.restore(self._root, self._progress)
        self._copy_system_files()
        self._load(note)
        for folder in self._places.directories:
            files.clear(folder)
        compared = list(self._compared())
        unequal = [part for part in compared if not part.equal]
        if unequal:
            raise Damaged(
                f"{unequal[0].part} {unequal[0].name} is not what was in the backup",
                hint="look for a disk that fails; nothing was started, and the backup is whole",
            )
        self._end(note)
        return compared

    def _begin(self) -> Restoring:
        """Refuse whatever is in use before anything is written."""
        data = self._places.data
        source, ended_at = self._manifest.source, self._manifest.ended_at
        note = notes.read_restoring(data)
        if note is not None:
            if (note.source, note.ended_at) != (source, ended_at):
                raise Conflict(
                    f"another backup is being restored into {data}: of {note.source.store}",
                    field="data",
                    hint="repeat that one, or begin with an empty directory",
                )
            return note
        require_empty(self._places, source)
        note = Restoring(source, ended_at, secrets.token_hex(8))
        notes.write(data, note)
        return note

    def _copy_attachments(self) -> None:
        content = open_content(self._places.attachments, self._places.data, owner=self._mark)
        attachments = self._in("attachments")
        for file in watched(self._progress, "attachments", attachments):
            if content.info(file.sha256) is None:
                self._put(content, file)

    def _put(self, content: ContentStore, file: StoredFile) -> None:
        incoming = content.receive()
        try:
            for piece in files.pieces(self._root / file.path):
                incoming.write(piece)
            incoming.commit(file.sha256)
        except FileNotFoundError:
            raise files.damaged(self._root, file.path, "it is missing") from None
        except InvalidInput as error:
            raise files.damaged(self._root, file.path, error.message) from None
        finally:
            incoming.discard()

    def _copy_system_files(self) -> None:
        targets = self._places.system_files
        for file in self._in("system"):
            target = targets.get(file.path.removeprefix("system/"))
            if target is not None and not target.exists():  # what is revoked there stays revoked
                files.copy(self._root, file, target, mode=durable.OWNER)

    def _load(self, note: Restoring) -> None:
        self._progress.begin("store", 0)
        for file in self._in("store"):
            files.check(self._root, file)
        lines = {table.name: partial(_lines, self._table(table.name)) for table in dump.TABLES}
        with contextlib.closing(Database(self._places.store)) as database:
            dump.Loading(database, note.token).load(lines)

    def _end(self, note: Restoring) -> None:
        with contextlib.closing(Database(self._places.store)) as database:
            loading = dump.Loading(database, note.token)
            loading.forget_topics()
            if self._manifest.delta:
                loading.put_tables(TableAddress.parse(self._places.tables).shown)
            incarnation = Incarnation(database)
            incarnation.begin(incarnation.seen(), with_log=True)
        write_mark(self._places.data, self._mark.now())
        self._log.mark()
        self._stored.mark()
        (self._places.data / notes.RESTORING).unlink()
        durable.sync(self._places.data)

    def _compared(self) -> Iterator[Compared]:
        """By reading again what was written."""
        wanted = {file.path: file for file in self._manifest.files}
        with dump.snapshot(self._places.store) as connection:
            counts = {table.name: table.rows for table in self._manifest.tables}
            for table in watched(self._progress, "comparing tables", dump.TABLES):
                digest, count = hashlib.sha256(), 0
                for line in dump.rows(connection, table):
                    digest.update(line)
                    count += 1
                sha256 = wanted[f"store/{table.name}.jsonl"].sha256
                yield Compared(
                    "table", table.name, counts[table.name], sha256, count, digest.hexdigest()
                )
        for cut in watched(self._progress, "comparing datasets", self._manifest.datasets):
            stored = self._in(f"{self._stored.folder}/{cut.name}")
            looked = [self._stored.look(file) for file in stored]
            there = [file for file, _ in looked]
            rows = sum(count for _, count in looked)
            yield Compared(
                "stored", cut.name, cut.stored_rows, files.sum_of(stored), rows, files.sum_of(there)
            )
            count, sha256 = self._log.look(cut)
            logged = self._log.expected(cut)
            yield Compared("log", cut.name, cut.log_records, logged, count, sha256)
        if self._manifest.matches:
            count, sha256 = self._log.look_at_matches()
            matches = wanted[backup.MATCHES].sha256
            yield Compared("matches", "", self._manifest.matches, matches, count, sha256)
        yield self._compared_attachments()

    def _compared_attachments(self) -> Compared:
        medium = open_medium(self._places.attachments, self._places.data)
        attachments = self._in("attachments")
        there = []
        for file in watched(self._progress, "comparing attachments", attachments):
            digest = hashlib.sha256()
            with contextlib.suppress(FileNotFoundError):
                for piece in medium.read(file.sha256, 0, file.size_bytes):
                    digest.update(piece)
                there.append(msgspec.structs.replace(file, sha256=digest.hexdigest()))
        return Compared(
            "attachments",
            "",
            len(attachments),
            files.sum_of(attachments),
            len(there),
            files.sum_of(there),
        )

    def _table(self, name: str) -> Path:
        return self._root / "store" / f"{name}.jsonl"

    def _in(self, folder: str) -> list[StoredFile]:
        return [file for file in self._manifest.files if file.path.startswith(f"{folder}/")]


def _log_target(places: Places, manifest: Manifest, mark: Mark) -> LogTarget:
    if places.logs_in_files:
        if manifest.source.log != "segments":
            raise SettingError(
                "the backup is of a log on Kafka, which cannot become one of files",
                field="log",
                hint="name a Kafka cluster: --log kafka://host:9092/PREFIX",
            )
        return SegmentTarget(Path(places.log), manifest, mark)
    from tocsin.storage.backup.topic_copies import MovedTarget, TopicTarget

    kind = TopicTarget if manifest.source.log == "kafka" else MovedTarget
    return kind(KafkaAddress.parse(places.log), manifest, mark, places.record_limit_bytes)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
