"""A data directory in use: by one cluster at a time, and always with the store it was filled from.

The system's lock ends with a process, and not before. Where a lease says who acts (a store on a
server, a log on Kafka), clusters of one store share it: a leader that is frozen must not keep its
directory from the one that takes its place. It still keeps out everybody else.

Whatever the store's tables name has to be there; a directory (or one of a log) that bears no mark
yet is taken over only if nothing in it speaks against that.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from tocsin import durable
from tocsin.errors import Conflict, SettingError
from tocsin.storage.identity import Mark, belongs_to_another, read_mark, write_mark
from tocsin.storage.log.segments.reader import list_segments
from tocsin.storage.store.store import Store

DATASETS = "datasets"
_LOCK = "lock"
_PATIENCE_S = 5.0  # for one that is just leaving
_ASK_AGAIN_S = 0.05
_SHOWN = 3


class DataDirectory:
    """Locked until `close`, and by nobody when the process ends."""

    _handle: int | None = None

    def __init__(self, data: Path, log: str, store: Store, *, patience_s: float = _PATIENCE_S):
        """`log` is the address of the publication log: a directory, or a server's."""
        self._data = data
        self._store = store
        shared = store.lease.number > 0 and "://" in log
        self._handle = _lock(data, store.mark, patience_s, shared=shared)
        try:
            self._bind(None if "://" in log else Path(log))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    def _bind(self, log: Path | None) -> None:
        """Look at everything before anything is marked."""
        marked = _is_ours(self._data, "the data directory", self._store.mark, "data")
        log_marked = log is None or _is_ours(log, "the log in", self._store.mark, "log")
        datasets = [dataset.name for dataset in self._store.catalog.datasets()]
        paths = self._store.files.paths()
        if not marked:
            self._refuse_strangers({path for path, _ in paths})
        self._require_files([path for path, is_live in paths if is_live])
        if log is not None:
            self._require_logs(log, datasets)
            if not log_marked and not datasets:
                self._refuse_records(log)
            if not log_marked:
                durable.make_directory(log)
                write_mark(log, self._store.mark.now())
        if not marked:
            write_mark(self._data, self._store.mark.now())
            _is_ours(self._data, "the data directory", self._store.mark, "data")  # nobody else's

    def _refuse_strangers(self, known: set[str]) -> None:
        """A dataset's folder none of whose files the store knows was filled by another store. A
        few that it does not know are what a crash left."""
        for folder in sorted((self._data / DATASETS).glob("*/")):
            files = [f"{folder.name}/{file.name}" for file in folder.glob("*.parquet")]
            if files and not known.intersection(files):
                raise SettingError(
                    f"{folder} has {_shown(files)}, of which the store {self._store.mark} knows"
                    " nothing: another store was used with this data directory",
                    field="data",
                    hint="start with that store, or give this one a data directory of its own",
                )

    def _require_files(self, paths: list[str]) -> None:
        missing = [path for path in paths if not (self._data / DATASETS / path).exists()]
        if missing:
            raise SettingError(
                f"the store {self._store.mark} was filled together with {_shown(missing)}, which"
                f" {self._data / DATASETS} does not have",
                field="data",
                hint="name the data directory that it was used with, or bring those files back",
            )

    def _require_logs(self, log: Path, datasets: list[str]) -> None:
        missing = [dataset for dataset in datasets if not list_segments(log, dataset)]
        if missing:
            raise SettingError(
                f"the log in {log} has no dataset {missing[0]}, which the store"
                f" {self._store.mark} has: it is another log, or it is lost",
                field="log",
                hint="name the log and the data directory that this store was used with",
            )

    def _refuse_records(self, log: Path) -> None:
        folders = [folder.name for folder in sorted(log.glob("*/"))]
        for name in folders:
            if any(path.stat().st_size for _, path in list_segments(log, name)):
                raise SettingError(
                    f"the log in {log} has records of dataset {name}, and the store"
                    f" {self._store.mark} is new: another store was used with it",
                    field="log",
                    hint="start with that store, or give this one a data directory of its own",
                )


def _is_ours(directory: Path, what: str, ours: Mark, field: str) -> bool:
    """False: it bears no mark."""
    theirs = read_mark(directory)
    if theirs is not None and theirs.id != ours.id:
        raise belongs_to_another(f"{what} {directory}", ours, theirs, field)
    return theirs is not None


def _shown(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more files"


def _lock(data: Path, ours: Mark, patience_s: float, *, shared: bool) -> int:
    durable.make_directory(data)
    handle = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() < deadline:
                time.sleep(_ASK_AGAIN_S)
                continue
            holder = os.pread(handle, 1000, 0).decode(errors="replace").strip()
            os.close(handle)
            raise Conflict(
                f"another cluster uses the data directory {data}: {holder or 'nobody knows which'}",
                field="data",
                hint="stop it, or give this one a data directory of its own",
            ) from None
    os.ftruncate(handle, 0)
    who = f"process {os.getpid()} on {socket.gethostname()[:64]}, with the store {ours}\n"
    os.pwrite(handle, who.encode(), 0)
    return handle
