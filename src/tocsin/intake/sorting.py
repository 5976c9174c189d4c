"""Part the records of a request into those that fit their dataset, and the dead letters of the
rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from msgspec import UNSET

from tocsin.intake.dead_letters import Encoded, Letters
from tocsin.intake.formats import RawRecord, Unreadable
from tocsin.intake.validator import Attachments, NoAttachments, RecordValidator, mentioned
from tocsin.model import Dataset, attachments_of
from tocsin.protocol.publishing import Published, Rejection

MOST_ERRORS_REPORTED = 100
MOST_LETTERS = 100
"""So many dead letters a request has in full; one more counts the rest."""

T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs what takes long where nobody waits for it (`large_bodies`)."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


class Sorted(NamedTuple):
    """Records that fit; of those that do not, how many there are, the first rejections, and their
    dead letters."""

    good: list[Encoded]
    refused: int
    rejections: list[Rejection]
    letters: list[Encoded]

    def with_more(self, more: Sorted) -> Sorted:
        return Sorted(
            self.good + more.good,
            self.refused + more.refused,
            self.rejections + more.rejections,
            self.letters + more.letters,
        )

    def published(self, end: int) -> Published:
        """What their publisher is told when the log has them, up to `end`."""
        return Published(
            accepted=len(self.good),
            rejected=self.refused,
            end=end,
            errors=self.rejections[:MOST_ERRORS_REPORTED],
            summed_up=self._summed_up() or UNSET,
        )

    def _summed_up(self) -> int:
        """How many of those that were refused are counted alone."""
        more = self.refused - len(self.letters)
        return more + 1 if more > 0 else 0


class Sorter:
    """Of one service. `attachments`: who keeps them; what fits is held there until it is logged."""

    def __init__(self, record_limit_bytes: int, attachments: Attachments | None = None) -> None:
        self._limit_bytes = record_limit_bytes
        self._attachments = attachments or NoAttachments()
        self._validators: dict[Dataset, RecordValidator] = {}

    def sort(
        self,
        dataset: Dataset,
        records: Iterable[RawRecord | Unreadable],
        publisher: str,
        source: str,
        *,
        most_letters: int | None = None,
    ) -> Sorted:
        """Of one request there are at most so many letters, and one that counts the rest."""
        validator = self._validator(dataset)
        good: list[Encoded] = []
        letters = Letters(dataset.name, source, publisher, self._limit_bytes // 2, most_letters)
        try:
            for raw in records:
                if isinstance(raw, Unreadable):
                    outcome: Encoded | Rejection = Rejection(raw.line, raw.reason)
                else:
                    outcome = validator.encode(raw)
                if isinstance(outcome, tuple):
                    good.append(outcome)
                else:
                    letters.add(raw, outcome)
        except BaseException:  # the input broke, or attachments are away: none of them goes in
            if attachments_of(dataset):
                self.let_go(good)
            raise
        return Sorted(good, letters.refused, letters.rejections, letters.all())

    def let_go(self, good: list[Encoded]) -> None:
        """Attachments that these mention are held no longer."""
        for record, _ in good:
            self._attachments.release(mentioned(record))

    def _validator(self, dataset: Dataset) -> RecordValidator:
        if dataset not in self._validators:
            self._validators[dataset] = RecordValidator(
                dataset, self._limit_bytes, self._attachments
            )
        return self._validators[dataset]
