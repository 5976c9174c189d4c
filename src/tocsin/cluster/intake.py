"""The one door for records: does each fit its dataset, and what is said of those that do not.

HTTP bodies, files, the inbox and INSERT all come through here, so a record that is in the log
always fits. One that does not fit becomes a publication to the dataset `dead_letters`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET
from prometheus_client import Counter

from tocsin.cluster.attachments import mentioned
from tocsin.cluster.dead_letters import DEAD_LETTERS, Encoded, Letters
from tocsin.cluster.formats import RawRecord, Unreadable
from tocsin.errors import InvalidInput, Unavailable, Unconfirmed
from tocsin.model import Dataset, attachments_of
from tocsin.protocol import numbers
from tocsin.protocol.publishing import Published, Rejection
from tocsin.sql import by_lower, coerce_text, coercer, fields_by_declared
from tocsin.storage.log import Appended, PublicationLog

ACCEPTED = Counter("tocsin_records_accepted_total", "Records taken into the log", ["dataset"])
REJECTED = Counter("tocsin_records_rejected_total", "Records that did not fit", ["dataset"])

MOST_ERRORS_REPORTED = 100
MOST_LETTERS = 100
"""So many dead letters a request has in full; one more counts the rest."""
OWNED = f"{DEAD_LETTERS.name} belongs to the system: nobody else writes to it"
MOST_KEY_CHARACTERS = 255

Coercer = Callable[[Any], Any]
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


def request_key(given: str, publisher: str, kind: str, body: bytes) -> str:
    """By what a request is known again: the key it came with, and all else that it says."""
    return key_of(given, publisher, kind, blake2b(body).hexdigest())


def key_of(given: str, publisher: str, kind: str, digest: str) -> str:
    """The same, if the hash of all else is known."""
    if not 0 < len(given) <= MOST_KEY_CHARACTERS:
        raise InvalidInput(
            f"an Idempotency-Key has 1 to {MOST_KEY_CHARACTERS} characters", field="Idempotency-Key"
        )
    content = msgspec.json.encode([given, publisher, kind, digest])
    return blake2b(content, digest_size=16).hexdigest()


class Attachments(Protocol):
    """What is asked of those who keep attachments (`cluster.attachments`)."""

    def hold(self, ids: Iterable[str]) -> None: ...
    def release(self, ids: Iterable[str]) -> None: ...
    def size_bytes(self, id: str) -> int | None: ...


class NoAttachments:
    """There are none."""

    def hold(self, ids: Iterable[str]) -> None: ...
    def release(self, ids: Iterable[str]) -> None: ...
    def size_bytes(self, id: str) -> int | None:
        return None


class RecordValidator:
    """Checks records of one dataset; built once per dataset, used for every record."""

    def __init__(
        self, dataset: Dataset, limit_bytes: int, attachments: Attachments | None = None
    ) -> None:
        self._dataset = dataset
        self._attachments = attachments or NoAttachments()
        self._attached = attachments_of(dataset)
        self._limit_bytes = limit_bytes
        self._declared = by_lower(column.name for column in dataset.columns)
        self._typed = {column.name: coercer(column.type) for column in dataset.columns}
        self._textual = {
            column.name: partial(coerce_text, type_text=column.type) for column in dataset.columns
        }

    def encode(self, raw: RawRecord) -> Encoded | Rejection:
        """The record as the log keeps it, or what is wrong with it."""
        coercers: Mapping[str, Coercer] = self._textual if raw.textual else self._typed
        declared: dict[str, Any] = {}
        extra: dict[str, str] = {}
        fields = raw.fields
        if not fields.keys() <= coercers.keys():
            try:
                fields = fields_by_declared(fields, self._declared)
            except ValueError as error:
                return Rejection(raw.line, str(error))
        for name, value in fields.items():
            fit = coercers.get(name)
            if fit is None:
                if not self._dataset.open:
                    reason = f"dataset {self._dataset.name} is closed and has no column {name!r}"
                    return Rejection(raw.line, reason, name)
                extra[name] = value if isinstance(value, str) else _json(value).decode()
            elif value is not None and not (raw.textual and value == ""):  # CSV has no NULL
                try:
                    declared[name] = fit(value)
                except ValueError as error:
                    return Rejection(raw.line, str(error), name)
        for name in self._dataset.primary_key:
            if declared.get(name) is None:
                return Rejection(raw.line, "a primary key column needs a value", name)
        encoded = _json(declared), _json(extra) if extra else None
        if len(encoded[0]) + len(encoded[1] or b"") > self._limit_bytes:
            return Rejection(raw.line, f"the record is larger than {self._limit_bytes} bytes")
        return (self._attached and self._missing(raw.line, declared, encoded[0])) or encoded

    def _missing(self, line: int, declared: dict[str, Any], encoded: bytes) -> Rejection | None:
        """None: all attachments are there, and held until the record is in the log."""
        ids = mentioned(encoded)
        self._attachments.hold(ids)
        try:
            missing = self._first_missing(line, declared)
        except BaseException:
            self._attachments.release(ids)
            raise
        if missing is not None:
            self._attachments.release(ids)
        return missing

    def _first_missing(self, line: int, declared: dict[str, Any]) -> Rejection | None:
        for name in self._attached:
            value = declared.get(name)
            if value is None:
                continue
            stored_bytes = self._attachments.size_bytes(value["id"])
            if stored_bytes != value["size"]:
                reason = f"attachment {value['id']} has {stored_bytes} bytes, not {value['size']}"
                if stored_bytes is None:
                    reason = (
                        f"there is no attachment {value['id']} (upload it first:"
                        f" PUT /v1/attachments/{value['id']})"
                    )
                return Rejection(line, reason, name)
        return None


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
        self._attachments = attachments or NoAttachments()
        self._dataset = dataset
        self._limit_bytes = record_limit_bytes
        self._validators: dict[Dataset, RecordValidator] = {}

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
        end = await self.append(name, fitting, key)
        return Published(
            accepted=len(fitting.good),
            rejected=fitting.refused,
            end=end,
            errors=fitting.rejections[:MOST_ERRORS_REPORTED],
            summed_up=_summed_up(fitting) or UNSET,
        )

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
            self._let_go(good)

    def _let_go(self, good: list[Encoded]) -> None:
        for record, _ in good:
            self._attachments.release(mentioned(record))

    def sort(
        self,
        dataset: Dataset,
        records: Iterable[RawRecord | Unreadable],
        publisher: str,
        source: str,
        *,
        most_letters: int | None = None,
    ) -> Sorted:
        """Part the records into those that fit, and the rejections with their dead letters. Of one
        request there are at most so many letters, and one that counts the rest."""
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
                self._let_go(good)
            raise
        return Sorted(good, letters.refused, letters.rejections, letters.all())

    def _validator(self, dataset: Dataset) -> RecordValidator:
        if dataset not in self._validators:
            self._validators[dataset] = RecordValidator(
                dataset, self._limit_bytes, self._attachments
            )
        return self._validators[dataset]


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


def _summed_up(records: Sorted) -> int:
    """How many of those that were refused are counted alone."""
    more = records.refused - len(records.letters)
    return more + 1 if more > 0 else 0


def _json(value: Any) -> bytes:
    return numbers.encode(value)
