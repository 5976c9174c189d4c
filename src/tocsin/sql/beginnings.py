"""Where a new subscription begins, in a statement: `FROM '10 minutes'` or `FROM LAST 100`."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from tocsin.beginnings import HINT, checked
from tocsin.errors import InvalidInput
from tocsin.model import Beginning
from tocsin.sql.literals import read_duration_s
from tocsin.sql.tokens import Reader


def read_beginning(reader: Reader) -> Beginning:
    """What follows FROM."""
    start = reader.offset
    if reader.accept("LAST"):
        last = reader.whole_number()
        if last is None:
            reader.fail("how many", hint="such as LAST 100")
        beginning = Beginning(last=last)
    else:
        reader.accept("INTERVAL")
        token = reader.token
        if token is None or token.token_type not in (TokenType.STRING, TokenType.NUMBER):
            reader.fail("a quoted interval or LAST", hint=HINT)
        beginning = Beginning(seconds=read_duration_s(reader))
    try:
        return checked(beginning)
    except InvalidInput as error:
        reader.fail_at(start, error.message, field=error.field, hint=error.hint)
