"""An error as it travels: in an HTTP body, in a frame, in the answer to an upgrade."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tocsin.errors import KINDS, QuotaExceeded, StatementError, TocsinError
from tocsin.protocol.fields import about


class ErrorInfo(Struct, frozen=True):
    """What was wrong, where, and what to do about it."""

    code: Annotated[str, about("the kind of error, by which programs know it")] = TocsinError.code
    message: Annotated[str, about("what was wrong, for people")] = "the service gave no reason"
    field: Annotated[str, about("the field, parameter or header that was wrong")] | UnsetType = (
        UNSET
    )
    hint: Annotated[str, about("what to do about it")] | UnsetType = UNSET
    line: Annotated[int, about("of a statement, from 1")] | UnsetType | None = UNSET
    column: Annotated[int, about("of a statement, from 1")] | UnsetType | None = UNSET
    retry_after_s: (
        Annotated[int, about("of a rate that is used up: when to come again")] | UnsetType
    ) = UNSET
    index: Annotated[int, about("of a list that was sent: which of it, from 0")] | UnsetType = UNSET


class ErrorBody(Struct, frozen=True):
    """The body of every HTTP answer that is an error."""

    error: ErrorInfo


def error_info(error: TocsinError) -> ErrorInfo:
    """The record of an error; `error_of` reads it back."""
    placed = isinstance(error, StatementError) and error.line is not None
    timed = isinstance(error, QuotaExceeded) and error.retry_after_s is not None
    return ErrorInfo(
        error.code,
        error.message,
        UNSET if error.field is None else error.field,
        UNSET if error.hint is None else error.hint,
        error.line if placed else UNSET,  # type: ignore[attr-defined]
        error.column if placed else UNSET,  # type: ignore[attr-defined]
        error.retry_after_s if timed else UNSET,  # type: ignore[arg-type]
        UNSET if error.index is None else error.index,
    )


def error_body(error: TocsinError) -> bytes:
    return msgspec.json.encode(ErrorBody(error_info(error)))


def error_of(info: ErrorInfo) -> TocsinError:
    """The error that a service answered with, so that clients raise the same types. One of a kind
    that is not known here is a plain TocsinError."""
    error = _of_its_kind(info)
    error.index = None if info.index is UNSET else info.index
    return error


def _of_its_kind(info: ErrorInfo) -> TocsinError:
    kind = KINDS.get(info.code, TocsinError)
    field, hint = info.field or None, info.hint or None
    if issubclass(kind, StatementError):
        line, column = info.line or None, info.column or None
        return kind(info.message, line=line, column=column, field=field, hint=hint)
    if issubclass(kind, QuotaExceeded):
        return kind(info.message, retry_after_s=info.retry_after_s or None, field=field, hint=hint)
    return kind(info.message, field=field, hint=hint)


def read_error(body: bytes | bytearray) -> TocsinError | None:
    """The error that a body holds; None if it holds something else."""
    try:
        return error_of(msgspec.json.decode(body, type=ErrorBody).error)
    except msgspec.DecodeError:
        return None
