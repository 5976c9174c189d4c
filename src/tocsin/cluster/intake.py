"""The one door for records: does each fit its dataset, and what is said of those that do not.

HTTP bodies, files, the inbox and INSERT all come through here, so a record that is in the log
always fits. One that does not fit becomes a publication to the dataset `dead_letters`. What a
gateway has checked is only appended here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from prometheus_client import Counter

from tocsin.errors import Unavailable, Unconfirmed
from tocsin.intake.dead_letters import DEAD_LETTERS, Encoded
from tocsin.intake.formats import RawRecord, Unreadable
from tocsin.intake.sorting import MOST_LETTERS, Elsewhere, Sorted, Sorter
from tocsin.intake.validator import Attachments
from tocsin.model import Dataset, attachments_of
from tocsin.protocol.publishing import Published
from tocsin.storage.log import Appended, PublicationLog

ACCEPTED = Counter("tocsin_records_accepted_total", "Records taken into the log", ["dataset"])
REJECTED = Counter("tocsin_records_rejected_total", "Records that did not fit", ["dataset"])


class _Part(NamedTuple):
    counter: Counter
    records: int
    future: Future[Appended]


class Appending:
    """A request on its way into the log: what fits, and the dead letters of the rest."""

    def __init__(self, name: str, end: int, parts: list[_Part]) -> None:
        self._name = name
        self._end = end
        self._parts = parts

    @property
    def futures(self) -> list[Future[Appended]]:
        return [part.future for part in self._parts]

    def end(self) -> int:
        """The dataset's end behind it, when all its futures are done. Raises what kept it out."""
        outcomes = [_outcome(part.future) for part in self._parts]
        _raise_failures(outcomes)
        end = self._end
        for part, done in zip(self._parts, outcomes, strict=True):
            assert not isinstance(done, BaseException)
            if not done.again:
                part.counter.labels(self._name).inc(part.records)
            if part.counter is ACCEPTED:
                end = done.end
        return end


class Intake:
    """Publishes batches of raw records."""

    def __init__(
        self,
        log: PublicationLog,
        dataset: Callable[[str], Dataset],
        record_limit_bytes: int,
        attachments: Attachments | None = None,
    ) -> None:
        self._log = log
        self._dataset = dataset
        self._sorter = Sorter(record_limit_bytes, attachments)
        self.sort = self._sorter.sort

    async def publish(
        self,
        name: str,
        records: Iterable[RawRecord | Unreadable],
        *,
        publisher: str,
        source: str,
        key: str | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> Published:
        """Append what fits and the dead letters of the rest; return when both are durable.
        `elsewhere`: where the records are read and checked, if there may be many."""
        dataset = self._dataset(name)
        work = partial(self.sort, dataset, records, publisher, source, most_letters=MOST_LETTERS)
        if elsewhere is not None:
            fitting = await elsewhere(work)
        elif attachments_of(dataset):  # whether they are there, a disk or a network must tell
            fitting = await asyncio.to_thread(work)
        else:
            fitting = work()
        return fitting.published(await self.append(name, fitting, key))

    async def append(self, name: str, records: Sorted, key: str | None) -> int:
        """The dataset's end behind them, when all are durable. What the log has taken under this
        key before is not taken again."""
        appending = self.begin(name, records, key)
        waiting = (asyncio.wrap_future(future) for future in appending.futures)
        await asyncio.gather(*waiting, return_exceptions=True)
        return appending.end()

    def begin(self, name: str, records: Sorted, key: str | None) -> Appending:
        """The same, not waited for."""
        good, letters, parts = records.good, records.letters, []
        if good:
            attached = attachments_of(self._dataset(name))
            future = self._begun(name, good, key)
            if attached:
                future.add_done_callback(partial(self._logged, good))
            parts.append(_Part(ACCEPTED, len(good), future))
        if letters:
            # A key of their own: there were times when others could publish to the dead letters.
            future = self._begun(DEAD_LETTERS.name, letters, key and f"{key}-refused")
            parts.append(_Part(REJECTED, records.refused, future))
        return Appending(name, self._log.ends().get(name, 0), parts)

    def _begun(self, name: str, records: list[Encoded], key: str | None) -> Future[Appended]:
        """A log that takes no more refuses at once; the other half of a request may be taken."""
        try:
            return self._log.append(name, records, key)
        except Unavailable as error:
            refused: Future[Appended] = Future()
            refused.set_exception(error)
            return refused

    def _logged(self, good: list[Encoded], done: Future[Any]) -> None:
        """Their records are in the log. What failed may come to be there yet: attachments of these
        stay held until the next start."""
        if done.exception() is None:
            self._sorter.let_go(good)


def _outcome(future: Future[Appended]) -> Appended | BaseException:
    if future.cancelled():
        return asyncio.CancelledError()
    return future.exception() or future.result()


def _raise_failures(outcomes: Sequence[Appended | BaseException]) -> None:
    """Where a part was taken, or may have been, the whole is in doubt."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if not failures:
        return
    in_doubt = [failure for failure in failures if isinstance(failure, Unconfirmed)]
    first = (in_doubt or failures)[0]
    if len(failures) < len(outcomes) and isinstance(first, Unavailable):
        raise Unconfirmed.after(first)
    raise first
