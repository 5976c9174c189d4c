"""The one writer of a log directory: a thread that commits for all publishers who wait at once.

While one fsync runs, new records queue up; the next round writes and syncs them together, one fsync
per dataset touched. Everything that changes files runs on that thread, in the order it was asked
for, so a cut or a roll sees exactly the records that came before it.

Knows nothing of schemas: a record is the JSON text of an object, checked by whoever calls.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

import structlog

from tocsin.errors import Conflict, InvalidInput, NotFound, Unavailable
from tocsin.storage.log import heads, line
from tocsin.storage.log.dataset_log import DatasetLog
from tocsin.storage.log.disk import Disk

_logger = structlog.get_logger(__name__)
_T = TypeVar("_T")

Record = bytes | tuple[bytes, bytes | None]
_LINE_BYTES = 50  # about what a line has besides its record


class Appended(NamedTuple):
    first: int  # position of the first record
    end: int  # where the next record of the dataset goes
    again: bool = False  # the log held these records already


class Cut(NamedTuple):
    """Records stamped <= at_us are those below the ends; all later ones are stamped > at_us."""

    at_us: int
    ends: dict[str, int]


class _Append(NamedTuple):
    dataset: str
    records: Sequence[Record]
    key: str | None
    future: Future[Appended]


class _Command(NamedTuple):
    run: Callable[[], Any]
    future: Future[Any]


class PublicationLog:
    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int,
        clock: Callable[[], float] = time.time,
        not_before_us: int = 0,
        disk: Disk | None = None,
    ) -> None:
        """Take the directory. `not_before_us`: every record will be stamped later than this."""
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._disk = disk or Disk()
        directory.mkdir(parents=True, exist_ok=True)
        self._lock_handle = _lock(directory)
        self._last_us = max(not_before_us, _known_time_us(directory))
        self._heads = heads.HeadsFile(directory)
        self._logs: dict[str, DatasetLog] = {}  # the writer thread's own
        self._ends: dict[str, int] = {}  # replaced, never changed: readers need no lock
        self._queue: SimpleQueue[_Append | _Command | None] = SimpleQueue()
        self._closed = False
        self._gate = Lock()  # nothing is queued behind the mark that ends the thread
        self._publish_heads()
        self._thread = Thread(target=self._run, name="publication-log", daemon=True)
        self._thread.start()

    def append(
        self, dataset: str, records: Sequence[Record], key: str | None = None
    ) -> Future[Appended]:
        """Append all records, one after the other. Resolves when they are durable, never before.

        A record is the JSON of the declared fields, or a pair of that and the JSON of the extra
        ones. The future fails with Unavailable if the disk refuses; then none of them is kept. If
        an earlier call with the same key was kept, that one is told, and nothing is appended.
        """
        if key is not None and not line.is_key(key):
            raise InvalidInput(f"{key!r} cannot be a request's key", field=dataset)
        for record in records:
            for part in _parts(record):
                if part is not None and b"\n" in part:
                    raise InvalidInput("a record must be one line of JSON", field=dataset)
        future: Future[Appended] = Future()
        self._put(_Append(dataset, records, key, future))
        return future

    def open_dataset(self, name: str) -> int:
        """Open or create a dataset's log and return its end. A torn tail is cut."""
        if not line.is_dataset_name(name):
            raise InvalidInput(f"{name!r} cannot name a dataset", field="name")
        return self._command(lambda: self._open(name))

    def create_dataset(self, name: str) -> int:
        """Open a dataset's log with nothing in it, though a drop was cut short by a crash."""
        self.open_dataset(name)
        self.drop_dataset(name)
        return self.open_dataset(name)

    def drop_dataset(self, name: str) -> None:
        """Delete a dataset's records. Positions go on from its end if it is ever made again.

        Otherwise a stream that remembers how far it read the old dataset would skip the new one.
        """
        self._command(lambda: self._drop(name))

    def roll(self, dataset: str) -> int:
        """Close the current segment (unless it is empty) and return the dataset's end."""
        return self._command(lambda: self._roll(dataset))

    def retire(self, dataset: str, below: int) -> None:
        """Delete whole segments whose records all lie below a position."""
        self._command(lambda: self._retire(dataset, below))

    def cut(self) -> Cut:
        """A moment that divides all records of all datasets into before and after."""
        return self._command(self._cut)

    def ends(self) -> dict[str, int]:
        """The durable end of every open dataset."""
        return dict(self._ends)

    def close(self) -> None:
        """Commit what is queued, then let the directory go."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        for log in self._logs.values():
            log.close()
        self._heads.close()
        os.close(self._lock_handle)

    def __enter__(self) -> PublicationLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: _Append | _Command) -> None:
        with self._gate:
            if self._closed:
                raise Unavailable("the publication log is closed", hint="try again")
            self._queue.put(item)

    def _command(self, run: Callable[[], _T]) -> _T:
        future: Future[_T] = Future()
        self._put(_Command(run, future))
        return future.result()

    # From here on: the writer thread.

    def _run(self) -> None:
        running = True
        while running:
            taken = [self._queue.get()]
            try:
                while True:
                    taken.append(self._queue.get_nowait())
            except Empty:
                pass
            waiting: list[_Append] = []
            for item in taken:
                if item is None:
                    running = False
                elif not item.future.set_running_or_notify_cancel():
                    continue  # the publisher went away before anything was written
                elif isinstance(item, _Append):
                    waiting.append(item)
                else:
                    self._commit(waiting)
                    waiting = []
                    self._execute(item)
            self._commit(waiting)

    def _execute(self, command: _Command) -> None:
        try:
            command.future.set_result(command.run())
        except OSError as error:
            command.future.set_exception(_unavailable(error))
        except Exception as error:
            command.future.set_exception(error)

    def _commit(self, waiting: list[_Append]) -> None:
        """One round: stage all, an fsync per dataset, show the new ends, then tell everybody."""
        by_dataset: dict[str, list[_Append]] = {}
        for item in waiting:
            by_dataset.setdefault(item.dataset, []).append(item)
        told: list[tuple[Future[Appended], Appended | Exception]] = []
        for dataset, every in by_dataset.items():
            for items in _batches(every, self._segment_bytes):
                try:
                    told += zip((i.future for i in items), self._write(dataset, items), strict=True)
                except Exception as error:
                    failure = _unavailable(error) if isinstance(error, OSError) else error
                    told += ((i.future, failure) for i in items)
        if told:
            self._publish_heads()
        for future, outcome in told:
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _write(self, dataset: str, items: list[_Append]) -> list[Appended]:
        log = self._log(dataset)
        if log.poisoned:
            log.cut_back()
        try:
            log.make_room()
            done = [self._stage(log, item) for item in items]
            log.commit()
        except BaseException as error:
            _logger.error("log.write_failed", dataset=dataset, error=str(error))
            try:
                log.cut_back()
            except OSError as second:
                _logger.error("log.poisoned", dataset=dataset, error=str(second))
            raise
        return done

    def _stage(self, log: DatasetLog, item: _Append) -> Appended:
        known = log.keys.find(item.key)
        if known is not None:
            return Appended(*known, again=True)
        first = log.written_end
        now_us = int(self._clock() * 1e6)
        opening = line.opening(len(item.records), item.key)
        for record in item.records:
            self._last_us = max(now_us, self._last_us + 1)
            log.stage(self._last_us, *_parts(record), opening)
            opening = b""
        if item.key is not None and item.records:
            log.keys.stage(item.key, (first, log.written_end))
        return Appended(first, log.written_end)

    def _log(self, dataset: str) -> DatasetLog:
        log = self._logs.get(dataset)
        if log is None:
            raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
        return log

    def _open(self, name: str) -> int:
        if name not in self._logs:
            log = DatasetLog(
                self.directory, name, segment_bytes=self._segment_bytes, disk=self._disk
            )
            self._logs[name] = log
            self._last_us = max(self._last_us, log.last_us)
            self._publish_heads()
        return self._logs[name].durable_end

    def _drop(self, name: str) -> None:
        log = self._log(name)
        self._roll(name)
        del self._logs[name]
        self._publish_heads(sync=True)  # readers let go first; the newest time must outlive it
        log.retire(log.durable_end)
        log.keys.drop()
        log.close()

    def _roll(self, dataset: str) -> int:
        log = self._log(dataset)
        if log.poisoned:
            log.cut_back()
        try:
            log.roll()
        except OSError:
            log.cut_back()
            raise
        return log.durable_end

    def _retire(self, dataset: str, below: int) -> None:
        self._publish_heads(sync=True)  # the segments may have been the last to know the time
        self._log(dataset).retire(below)

    def _cut(self) -> Cut:
        self._last_us = max(int(self._clock() * 1e6), self._last_us)
        self._publish_heads()
        return Cut(self._last_us, dict(self._ends))

    def _publish_heads(self, *, sync: bool = False) -> None:
        self._ends = {name: log.durable_end for name, log in self._logs.items()}
        try:
            self._heads.write(heads.Heads(self._ends, self._last_us), sync=sync)
        except OSError as error:  # the records are safe; streams see them at the next commit
            _logger.warning("log.heads_not_written", error=str(error))


def _batches(items: list[_Append], most_bytes: int) -> Iterator[list[_Append]]:
    """What is committed together, and so is in one segment: one fsync serves all of it."""
    batch: list[_Append] = []
    size_bytes = 0
    for item in items:
        batch.append(item)
        for record, extra in map(_parts, item.records):
            size_bytes += len(record) + len(extra or b"") + _LINE_BYTES
        if size_bytes >= most_bytes:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _parts(record: Record) -> tuple[bytes, bytes | None]:
    return record if isinstance(record, tuple) else (record, None)


def _unavailable(error: OSError) -> Unavailable:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Unavailable(
        f"the publication log cannot be written: {error.strerror or error}",
        hint="free disk space and publish again" if full else "publish again",
    )


def _lock(directory: Path) -> int:
    """Two writers would interleave lines; the system frees the lock when a process dies."""
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Conflict(
            f"another process writes the publication log in {directory}",
            hint="stop it, or choose another data directory",
        ) from None
    return handle


def _known_time_us(directory: Path) -> int:
    known = heads.read_once(directory)
    return known.last_us if known is not None else 0
