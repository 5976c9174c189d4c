"""Where a new subscription begins: `FROM '10 minutes'` or `FROM LAST 100`, and the same as data."""

from __future__ import annotations

import math

from sqlglot.tokenizer_core import TokenType

from tocsin.errors import InvalidInput, StatementError
from tocsin.language.literals import read_duration_s
from tocsin.language.tokens import Reader
from tocsin.model import Beginning

MOST = 10_000
FARTHEST_S = 100 * 365 * 86_400.0
_HINT = "such as '10 minutes', or LAST 100"


def read_beginning(reader: Reader) -> Beginning:
    """What follows FROM."""
    start = reader.offset
    if reader.accept("LAST"):
        token = reader.token
        if token is None or not token.text.isdigit():
            reader.fail("how many", hint="such as LAST 100")
        found = Beginning(last=int(reader.advance().text))
    else:
        reader.accept("INTERVAL")
        token = reader.token
        if token is None or token.token_type not in (TokenType.STRING, TokenType.NUMBER):
            reader.fail("a quoted interval or LAST", hint=_HINT)
        found = Beginning(seconds=read_duration_s(reader))
    try:
        return checked(found)
    except InvalidInput as error:
        reader.fail_at(start, error.message, field=error.field, hint=error.hint)


def parse_beginning(text: str) -> Beginning:
    """The same from a text of its own: `10 minutes`, `last 100`."""
    words = text.split()
    if len(words) == 2 and words[0].lower() == "last" and words[1].isdigit():
        return checked(Beginning(last=int(words[1])))
    quoted = "'" + text.replace("'", "") + "'"
    try:
        return read_beginning(Reader(quoted))
    except StatementError as error:
        raise InvalidInput(error.message, field="from", hint="10 minutes, or last 100") from None


def checked(given: Beginning) -> Beginning:
    """The same, if it makes sense."""
    if (given.seconds is None) == (given.last is None):
        raise InvalidInput(
            "a subscription begins with so many seconds or with so many results",
            field="from",
            hint='{"seconds": 600} or {"last": 100}',
        )
    if given.last is not None and not 1 <= given.last <= MOST:
        raise InvalidInput(f"{given.last} is not 1 to {MOST} results", field="from", hint=_HINT)
    if given.seconds is not None and not (
        math.isfinite(given.seconds) and 0 < given.seconds <= FARTHEST_S
    ):
        raise InvalidInput(
            f"{given.seconds:g} s is not a time to look back", field="from", hint=_HINT
        )
    return given
