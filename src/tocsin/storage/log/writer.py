"""The one writer of a log: a thread that commits for all publishers who wait at once.

While one commit runs, new records queue up; the next round stages them all and makes them durable
together. Everything that changes the log runs on that thread, in the order it was asked for, so a
cut or a roll sees exactly the records that came before it.

Knows nothing of schemas: a record is the JSON text of an object, checked by whoever calls.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import methodcaller
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

import structlog

from tocsin import durable
from tocsin.errors import InvalidInput, NotFound, TocsinError, TooLarge, Unavailable, Unconfirmed
from tocsin.storage.log.port import Appended, Cut, DatasetLog, Medium, Record, Stamped

_logger = structlog.get_logger(__name__)
_T = TypeVar("_T")

_DATASET_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_KEY = re.compile(r"[0-9A-Za-z_-]{1,64}")
_LINE_BYTES = 50  # about what a line has besides its record
_CALL_BYTES = 1000  # about what a call has besides its records
MOST_WAITING_BYTES = 256 * 1024 * 1024
"""So much waits for a slow disk or a slow Kafka; publishers beyond it are told to come again."""


class _Append(NamedTuple):
    dataset: str
    records: Sequence[Record]
    key: str | None
    size_bytes: int
    future: Future[Appended]


class _Command(NamedTuple):
    run: Callable[[], Any]
    future: Future[Any]


class PublicationLog:
    def __init__(
        self,
        medium: Medium,
        *,
        clock: Callable[[], float] = time.time,
        not_before_us: int = 0,
        own_thread: bool = True,
        most_waiting_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        """`not_before_us`: every record will be stamped later than this. Without a thread of its
        own, whoever made it calls `step` after appending; all else is done when it is called."""
        self._most_waiting_bytes = most_waiting_bytes
        self._waiting_bytes = 0
        self._medium = medium
        self._clock = clock
        self._last_us = max(not_before_us, medium.known_us())
        self._logs: dict[str, DatasetLog] = {}  # the writer thread's own
        self._ends: dict[str, int] = {}  # replaced, never changed: readers need no lock
        self._queue: SimpleQueue[_Append | _Command | None] = SimpleQueue()
        self._closed = False
        self._watchers: tuple[Callable[[], None], ...] = ()  # replaced, never changed
        self._gate = Lock()  # nothing is queued behind the mark that ends the thread
        self._show_ends()
        self._thread: Thread | None = None
        if own_thread:
            self._thread = Thread(target=self._run, name="publication-log", daemon=True)
            self._thread.start()

    @property
    def address(self) -> str:
        """By which `open_reader` finds it, from any process."""
        return self._medium.address

    @property
    def warnings(self) -> Sequence[str]:
        """How the medium is set to lose what was acknowledged, and what to do about it."""
        return self._medium.warnings

    def append(
        self, dataset: str, records: Sequence[Record], key: str | None = None
    ) -> Future[Appended]:
        """Append all records, one after the other. Resolves when they are durable, never before.
        Raises Unavailable if too much waits already.

        The future fails with Unavailable if the medium refuses; then nothing is kept of this call.
        It fails with Unconfirmed if the medium does not answer: then it may be kept, or (Kafka)
        become kept later, in part or whole. Sent again under the same key it is made whole, and is
        there once. If an earlier call with the same key was kept, its place is returned, and
        nothing is appended.
        """
        if key is not None and not _KEY.fullmatch(key):
            raise InvalidInput(f"{key!r} cannot be a request's key", field=dataset)
        size_bytes = _CALL_BYTES
        for record in records:
            for part in _parts(record):
                if part is not None:
                    size_bytes += len(part) + _LINE_BYTES
                    if b"\n" in part:
                        raise InvalidInput("a record must be one line of JSON", field=dataset)
        future: Future[Appended] = Future()
        self._put(_Append(dataset, records, key, size_bytes, future), size_bytes)
        return future

    def open_dataset(self, name: str, primary_key: Sequence[str] = ()) -> int:
        """Open or create a dataset's log and return its end."""
        if not _DATASET_NAME.match(name):
            raise InvalidInput(f"{name!r} cannot name a dataset", field="name")
        return self._command(lambda: self._open(name, primary_key))

    def create_dataset(self, name: str, primary_key: Sequence[str] = ()) -> int:
        """Open a dataset's log with nothing in it, also after a crash in the middle of a drop."""
        self.open_dataset(name, primary_key)
        self.drop_dataset(name)
        return self.open_dataset(name, primary_key)

    def drop_dataset(self, name: str) -> None:
        """Delete a dataset's records. Positions go on from its end if it is ever made again.

        Otherwise a stream that remembers how far it read the old dataset would skip the new one.
        """
        self._command(lambda: self._drop(name))

    def roll(self, dataset: str) -> int:
        """Let `retire` reach everything up to the dataset's end, and return that."""
        return self._command(lambda: self._roll(dataset))

    def retire(self, dataset: str, below: int) -> None:
        """Delete records below a position, as far as the medium can."""
        self._command(lambda: self._retire(dataset, below))

    def cut(self) -> Cut:
        """A moment that divides all records of all datasets into before and after."""
        return self._command(self._cut)

    def ends(self) -> dict[str, int]:
        """The durable end of every open dataset."""
        return dict(self._ends)

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Have `moved` called whenever `ends` may have changed, on the log's own thread: it must
        not block. Returns a function that ends the watch."""
        self._watchers = (*self._watchers, moved)

        def end() -> None:
            self._watchers = tuple(watcher for watcher in self._watchers if watcher is not moved)

        return end

    def close(self) -> None:
        """Commit what is queued, then let the medium go."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        else:
            self.step()
        for log in self._logs.values():
            log.close()
        self._medium.close()

    def __enter__(self) -> PublicationLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: _Append | _Command, size_bytes: int = 0) -> None:
        with self._gate:
            if self._closed:
                raise Unavailable("the publication log is closed", hint="try again")
            waiting = self._waiting_bytes
            if size_bytes and waiting and waiting + size_bytes > self._most_waiting_bytes:
                raise Unavailable(
                    f"the publication log is behind: {waiting} bytes wait to become durable",
                    hint="publish again in a moment",
                )
            self._waiting_bytes += size_bytes
            self._queue.put(item)

    def _let_go(self, items: Iterable[_Append | _Command]) -> None:
        size_bytes = sum(item.size_bytes for item in items if isinstance(item, _Append))
        with self._gate:
            self._waiting_bytes -= size_bytes

    def _command(self, run: Callable[[], _T]) -> _T:
        future: Future[_T] = Future()
        self._put(_Command(run, future))
        if self._thread is None:
            self.step()
        return future.result()

    # From here on: the writer thread.

    def _run(self) -> None:
        while self.step(wait=True):
            pass

    def step(self, *, wait: bool = False) -> bool:
        """One round: carry out all that is queued, in order. False: the log was closed. Waits for
        something to do if it is to."""
        taken: list[_Append | _Command | None] = []
        with suppress(Empty):
            taken.append(self._queue.get(block=wait))
            while True:
                taken.append(self._queue.get_nowait())
        running = True
        waiting: list[_Append] = []
        for item in taken:
            if item is None:
                running = False
            elif not item.future.set_running_or_notify_cancel():
                self._let_go([item])  # the publisher went away before anything was written
            elif isinstance(item, _Append):
                waiting.append(item)
            else:
                self._commit(waiting)
                waiting = []
                self._execute(item)
        self._commit(waiting)
        return running

    def _execute(self, command: _Command) -> None:
        try:
            command.future.set_result(command.run())
        except Exception as error:
            command.future.set_exception(_for_publishers(error))

    def _commit(self, waiting: list[_Append]) -> None:
        """Stage and commit all, show the new ends, then resolve all futures."""
        outcomes: list[tuple[Future[Appended], Appended | Exception]] = []
        for batch in _batches(waiting, self._medium.batch_bytes):
            outcomes += self._write(batch)
        if outcomes:
            self._show_ends()
            self._let_go(waiting)
        for future, outcome in outcomes:
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _write(
        self, batch: dict[str, list[_Append]]
    ) -> Iterator[tuple[Future[Appended], Appended | Exception]]:
        """One round. Everything is staged before anything is waited for: a medium may make several
        datasets durable at once."""
        staged = {dataset: self._attempt(dataset, self._stage, batch[dataset]) for dataset in batch}
        for dataset, items in batch.items():
            done = staged[dataset]
            if not isinstance(done, Exception):
                failure = self._attempt(dataset, methodcaller("commit"))
                done = failure or done
            for number, item in enumerate(items):
                yield item.future, done if isinstance(done, Exception) else done[number]

    def _attempt(self, dataset: str, act: Callable[..., _T], *given: Any) -> _T | Exception:
        """The outcome, or the failure; after a failure the dataset is as before."""
        try:
            log = self._mended(dataset)
        except (NotFound, OSError, Unavailable) as error:
            return _for_publishers(error)
        try:
            return act(log, *given)
        except Exception as error:
            _logger.error("log.write_failed", dataset=dataset, error=str(error))
            failure = _for_publishers(error)
            try:
                log.cut_back()
            except (OSError, Unavailable) as second:
                _logger.error("log.poisoned", dataset=dataset, error=str(second))
                return Unconfirmed.after(failure) if isinstance(failure, TocsinError) else failure
            return failure

    def _stage(self, log: DatasetLog, items: list[_Append]) -> list[Appended | Exception]:
        log.make_room()
        staged: list[Appended | Exception] = []
        for item in items:
            try:
                staged.append(log.find(item.key) or log.stage(item.key, self._stamped(item)))
            except TooLarge as error:  # the others have no part in it
                staged.append(error)
        return staged

    def _stamped(self, item: _Append) -> list[Stamped]:
        now_us = int(self._clock() * 1e6)
        stamped = []
        for record in item.records:
            self._last_us = max(now_us, self._last_us + 1)
            stamped.append(Stamped(self._last_us, *_parts(record)))
        return stamped

    def _log(self, dataset: str) -> DatasetLog:
        log = self._logs.get(dataset)
        if log is None:
            raise NotFound(f"the log has no dataset {dataset!r}", field=dataset)
        return log

    def _mended(self, dataset: str) -> DatasetLog:
        log = self._log(dataset)
        if log.poisoned:
            log.cut_back()
        return log

    def _open(self, name: str, primary_key: Sequence[str]) -> int:
        if name not in self._logs:
            log = self._medium.open(name, primary_key)
            self._logs[name] = log
            self._last_us = max(self._last_us, log.last_us)
            self._show_ends()
        return self._logs[name].durable_end

    def _drop(self, name: str) -> None:
        log = self._log(name)
        self._roll(name)
        del self._logs[name]
        self._show_ends(sync=True)  # readers let go first; the newest time must outlive it
        log.drop()
        log.close()

    def _roll(self, dataset: str) -> int:
        log = self._mended(dataset)
        try:
            log.roll()
        except OSError:
            log.cut_back()
            raise
        return log.durable_end

    def _retire(self, dataset: str, below: int) -> None:
        self._show_ends(sync=True)  # the segments may have been the last to know the time
        self._log(dataset).retire(below)

    def _cut(self) -> Cut:
        for dataset in self._logs:  # what is in doubt was stamped before
            self._mended(dataset)
        self._last_us = max(int(self._clock() * 1e6), self._last_us)
        self._show_ends()
        return Cut(self._last_us, dict(self._ends))

    def _show_ends(self, *, sync: bool = False) -> None:
        self._ends = {name: log.durable_end for name, log in self._logs.items()}
        self._medium.show(self._ends, self._last_us, sync=sync)
        for moved in self._watchers:
            moved()


def _batches(waiting: list[_Append], most_bytes: int) -> Iterator[dict[str, list[_Append]]]:
    """What is committed together, dataset by dataset; of none much more than `most_bytes`."""
    while waiting:
        batch: dict[str, list[_Append]] = {}
        sizes: dict[str, int] = {}
        later: list[_Append] = []
        for item in waiting:
            size_bytes = sizes.get(item.dataset, 0)
            if size_bytes >= most_bytes:
                later.append(item)
                continue
            batch.setdefault(item.dataset, []).append(item)
            sizes[item.dataset] = size_bytes + item.size_bytes
        yield batch
        waiting = later


def _parts(record: Record) -> tuple[bytes, bytes | None]:
    return record if isinstance(record, tuple) else (record, None)


def _for_publishers(error: Exception) -> Exception:
    """The error that publishers get."""
    if not isinstance(error, OSError):
        return error
    return durable.not_written("the publication log", error, "publish again")
