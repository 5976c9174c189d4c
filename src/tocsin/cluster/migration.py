"""A system of files moves to Kafka and a database server.

Its log becomes Parquet up to the end, which the positions of the new topics begin behind; then it
is backed up beside the new data directory, and restored from there. Whoever is interrupted begins
the command again. Once the backup is whole, no cluster starts on the old directory.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator

from tocsin.cluster.inbox import waiting_files
from tocsin.cluster.log_positions import open_dataset
from tocsin.errors import Conflict, SettingError
from tocsin.model import attachments_of
from tocsin.protocol.backup import MANIFEST, Source
from tocsin.settings import Settings, without_secrets
from tocsin.storage.backup import notes
from tocsin.storage.backup.comparison import Compared
from tocsin.storage.backup.making import Backup
from tocsin.storage.backup.places import Places
from tocsin.storage.backup.progress import Progress
from tocsin.storage.backup.restoring import Restore
from tocsin.storage.backup.vacancy import require_empty
from tocsin.storage.content import open_medium
from tocsin.storage.data_directory import DataDirectory
from tocsin.storage.log import PublicationLog, check_reachable, open_log, open_reader
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.store import dump
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables

STAGING = "migrating"

Flush = Callable[[Settings, Store, PublicationLog, Progress], None]


class Migration:
    def __init__(
        self, source: Settings, target: Settings, progress: Progress, flush: Flush
    ) -> None:
        """`flush` makes Parquet of all that the log has (`spark.flushing`)."""
        self._source = source
        self._target = target
        self._from = Places.of(source)
        self._to = Places.of(target)
        self._progress = progress
        self._flush = flush
        self._staging = self._to.data / STAGING

    def run(self) -> list[Compared]:
        """What can be known to fail is refused before anything is done."""
        self._require_kinds()
        self._from.require_store()
        check_reachable(self._target.log)
        with self._stopped() as store:
            self._require_movable(store)
            if notes.read_moved(self._from.data) is None:
                self._stage(store)
            elif not (self._staging / MANIFEST).exists():
                notes.require_startable(self._from.data)  # says where it is
            compared = Restore(self._staging, self._to, self._progress).run()
        (self._staging / MANIFEST).unlink()
        shutil.rmtree(self._staging)
        return compared

    def _stage(self, store: Store) -> None:
        require_empty(self._to, Source(store.id, dump.shown(self._from.store), "segments"))
        shutil.rmtree(self._staging, ignore_errors=True)  # older than what is here now
        with self._opened_log(store) as log:
            self._flush(self._source, store, log, self._progress)
            for dataset in store.catalog.datasets():
                log.roll(dataset.name)  # all keys are in files then
            with Backup(self._from, self._staging, self._progress) as backup:
                backup.make()
        moved = notes.Moved(dump.shown(self._to.store), without_secrets(self._to.log))
        notes.write(self._from.data, moved)

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[Store]:
        """Nobody uses the system, and nobody can until this ends."""
        with (
            Store.open(self._from.store) as store,
            contextlib.closing(DataDirectory(self._from.data, self._from.log, store)),
        ):
            yield store

    @contextlib.contextmanager
    def _opened_log(self, store: Store) -> Iterator[PublicationLog]:
        log = open_log(self._from.log, segment_bytes=self._source.segment_bytes)
        tables = open_tables(self._source, store)
        with log, contextlib.closing(open_reader(log.address)) as reader:
            for dataset in store.catalog.datasets():
                open_dataset(log, store, tables, dataset, reader)
            yield log

    def _require_kinds(self) -> None:
        if not self._from.logs_in_files:
            raise SettingError(
                f"the log of the system in {self._from.data} is on Kafka already",
                field="from",
                hint="move it elsewhere by tocsin backup and tocsin restore",
            )
        if not is_kafka(self._target.log):
            raise SettingError(
                "a system is migrated to a log on Kafka, and the settings to go to name none",
                field="log",
                hint='say log = "kafka://host:9092/tocsin" there',
            )
        if self._to.data == self._from.data:
            raise SettingError(
                f"the system is in {self._to.data}, and the new one needs a directory of its own",
                field="data",
                hint="name one in the settings to go to, which does not exist yet",
            )

    def _require_movable(self, store: Store) -> None:
        waiting = waiting_files(self._from.data / "inbox")
        if waiting:
            raise Conflict(
                f"{len(waiting)} files wait in the inbox, such as {waiting[0]}",
                field="from",
                hint="let the cluster take them, or take them away; then stop it and repeat",
            )
        for dataset in store.catalog.datasets():
            if dataset.source is not None and not self._target.kafka:
                raise SettingError(
                    f"dataset {dataset.name} is fed from topic {dataset.source.topic}, and the"
                    " settings to go to do not say where that is",
                    field="kafka",
                    hint="say kafka = … there, as the system has it now",
                )
            if attachments_of(dataset):
                medium = open_medium(self._from.attachments, self._from.data)
                if medium.mark() is None:
                    raise SettingError(
                        f"dataset {dataset.name} has attachments, which are not in {medium.shown}",
                        field="from",
                        hint="give the file of settings that the system runs with: --from FILE",
                    )
