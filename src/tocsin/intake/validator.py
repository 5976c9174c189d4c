"""Does a record fit its dataset, and how does the log keep it?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from tocsin.intake.dead_letters import Encoded
from tocsin.intake.formats import RawRecord
from tocsin.model import Dataset, attachments_of
from tocsin.protocol import numbers
from tocsin.protocol.publishing import Rejection
from tocsin.sql import by_lower, coerce_text, coercer, fields_by_declared

Coercer = Callable[[Any], Any]

_MENTION = re.compile(rb"(?=([0-9a-f]{64}))")  # wherever 64 digits begin, also within more of them


def mentioned(text: bytes) -> set[str]:
    """Every id of an attachment that a text may speak of. More than there are does no harm."""
    return {id.decode() for id in _MENTION.findall(text)}


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


def _json(value: Any) -> bytes:
    return numbers.encode(value)
