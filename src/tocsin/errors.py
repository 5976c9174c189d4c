"""The one tree of errors a user can meet. A broken invariant is not here: it crashes.
`protocol.failure` says how errors travel.

TocsinError
├── InvalidInput          what was sent does not make sense            400
│   ├── StatementError    a statement or query, with line and column   400
│   ├── RecordError       a record that does not fit its dataset       422
│   └── SettingError      a flag, environment variable or file key     400
├── Unauthenticated       no token, a broken or an expired one         401
├── Forbidden             a good token without the needed scope        403
├── NotFound              a name or id nobody knows                    404
├── TooSlow               a body that did not come in time             408
├── Conflict              it exists already, or something depends on it 409
├── Gone                  the past asked for is no longer kept         410
├── TooLarge              a body, frame or record over its limit       413
├── UpgradeRequired       a peer whose protocol is too old             426
├── QuotaExceeded         more than a quota allows                     429
├── Unavailable           the service cannot answer now; try again     503
│   ├── Standby           another cluster leads: ask that one          503
│   ├── NotLeading        a cluster that lost its store, or may have   503
│   ├── Unconfirmed       nor does anybody know whether it was done    503
│   └── Untrusted         a peer whose certificate nobody vouches for  503
├── NotInstalled          a library of an optional part is absent      501
└── Damaged               bytes on a disk are not what was written     500
"""

from __future__ import annotations

import re
import traceback
from typing import ClassVar

MISCONFIGURED = 2
"""A process's exit code when its settings or its installation are wrong: starting it again would
not help."""
DEPOSED = 3
"""A process's exit code when another has taken over what it led: started again, it waits for that
one if it is a standby, and is refused otherwise."""


class TocsinError(Exception):
    """What was wrong, where (`field`), and what to do (`hint`). Each kind has a `code` of its own,
    by which clients know it again."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    retry_after_s: int | None = None  # when to come again, as HTTP says it
    index: int | None = None  # of a list that was sent: which of it was wrong

    def __init_subclass__(cls) -> None:
        if KINDS.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"{cls.__name__} needs a code of its own: {cls.code!r} is taken")

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


KINDS: dict[str, type[TocsinError]] = {TocsinError.code: TocsinError}
"""Every kind of error, by its code."""


class InvalidInput(TocsinError):
    status = 400
    code = "invalid_input"


class StatementError(InvalidInput):
    """An error in a statement; line and column count from 1 in the text as the user wrote it."""

    code = "statement"

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, field=field, hint=hint)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return where + super().__str__()


class RecordError(InvalidInput):
    status = 422
    code = "record"


class SettingError(InvalidInput):
    code = "setting"


class Unauthenticated(TocsinError):
    status = 401
    code = "unauthenticated"


class Forbidden(TocsinError):
    status = 403
    code = "forbidden"


class NotFound(TocsinError):
    status = 404
    code = "not_found"


class TooSlow(TocsinError):
    status = 408
    code = "too_slow"


class Conflict(TocsinError):
    status = 409
    code = "conflict"


class Gone(TocsinError):
    status = 410
    code = "gone"


class TooLarge(TocsinError):
    status = 413
    code = "too_large"


class UpgradeRequired(TocsinError):
    status = 426
    code = "upgrade_required"


class QuotaExceeded(TocsinError):
    """More than a quota, `field`, allows; nothing of it was done. Of a rate it is known when to
    come again. A count has room again when something is given up, and nobody knows when."""

    status = 429
    code = "quota_exceeded"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, field=field, hint=hint)
        self.retry_after_s = retry_after_s


class Unavailable(TocsinError):
    status = 503
    code = "unavailable"
    retry_after_s = 1


class Standby(Unavailable):
    """Told by a cluster that waits for its store. Nothing was done."""

    code = "standby"


class NotLeading(Unavailable):
    """Told by a cluster that led, and does not any more or cannot know whether it does. What it was
    asked before may have been done."""

    code = "not_leading"


class NotInstalled(TocsinError, ImportError):
    """An optional part of the package is not there; `tocsin.extras` knows which extra brings it."""

    status = 501
    code = "not_installed"


class Damaged(TocsinError):
    """Nothing mends it but a person: no retry, and no restart."""

    code = "damaged"


class Unconfirmed(Unavailable):
    """No confirmation came, and what was sent may have been taken all the same."""

    code = "unconfirmed"

    @classmethod
    def after(cls, error: TocsinError) -> Unconfirmed:
        """Why no confirmation came."""
        if isinstance(error, Unconfirmed):
            return error
        return cls(
            f"{error.message}; it is not known whether it was taken",
            field=error.field,
            hint="send it again under the same Idempotency-Key, and it is taken once; without a"
            " key, look first whether it is there",
        )


class Untrusted(Unavailable):
    """A peer cannot show who it is. Told by whoever calls; no service answers with it."""

    code = "untrusted"


_MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)


def is_bug(error: Exception) -> bool:
    """Whether our own code raised it by mistake: nobody may take that for a peer that is away."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raised_by = str(frames[-1].f_globals.get("__name__")) if frames else ""
    return isinstance(error, _MISTAKES) and raised_by.startswith("tocsin.")


def field_named(reason: Exception) -> str | None:
    """The field that a msgspec validation error speaks of."""
    match = re.search(r"`\$\.?([^`]+)`|field `([^`]+)`", str(reason))
    return (match[1] or match[2]) if match else None
