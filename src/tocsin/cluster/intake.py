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
from typing import Any

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
        good, letters, appending = records.good, records.letters, []
        if good:
            attached = attachments_of(self._dataset(name))
            future = self._begun(name, good, key)
            if attached:
                future.add_done_callback(partial(self._logged, good))
            appending.append((ACCEPTED, len(good), future))
        if letters:
            # A key of their own: there were times when others could publish to the dead letters.
            future = self._begun(DEAD_LETTERS.name, letters, key and f"{key}-refused")
            appending.append((REJECTED, records.refused, future))
        end = self._log.ends().get(name, 0)
        outcomes = await asyncio.gather(
            *(asyncio.wrap_future(future) for _, _, future in appending), return_exceptions=True
        )
        _raise_failures(outcomes)
        for (counter, count, _), done in zip(appending, outcomes, strict=True):
            assert not isinstance(done, BaseException)
            if not done.again:
                counter.labels(name).inc(count)
            if counter is ACCEPTED:
                end = done.end
        return end

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
