"""Values written in a statement: numbers, strings, dates, arrays, maps, intervals, and ANY."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.tokenizer_core import TokenType

from tocsin.language.tokens import Reader
from tocsin.language.types import coerce
from tocsin.model import ANY

_UNITS_S = {
    "MILLISECOND": 0.001,
    "SECOND": 1.0,
    "MINUTE": 60.0,
    "HOUR": 3600.0,
    "DAY": 86400.0,
    "WEEK": 604800.0,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_UNIT_NAMES = "MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS"


def _unit_s(reader: Reader, word: str, offset: int) -> float:
    unit = word.upper()
    seconds = _UNITS_S.get(unit) or _UNITS_S.get(unit.removesuffix("S"))
    if seconds is None:
        reader.fail_at(offset, f"expected a unit of time, found {word!r}", hint=_UNIT_NAMES)
    return seconds


def read_interval_s(reader: Reader) -> float:
    """`INTERVAL 10 SECONDS`, `INTERVAL '10' SECOND`, `INTERVAL '1 hour 30 minutes'`."""
    reader.expect("INTERVAL")
    return read_duration_s(reader)


def read_duration_s(reader: Reader) -> float:
    """What follows INTERVAL."""
    start = reader.offset
    token = reader.token
    if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
        reader.fail("a number or a quoted interval", hint="such as INTERVAL 10 SECONDS")
    reader.advance()
    amount = token.text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", amount):
        unit_at = reader.offset
        total_s = float(amount) * _unit_s(reader, reader.word(_UNIT_NAMES), unit_at)
    else:
        total_s, at = 0.0, 0
        while at < len(amount):
            part = _PART.match(amount, at)
            if part is None:
                reader.fail_at(start, f"cannot read the interval {amount!r}", hint=_UNIT_NAMES)
            total_s += float(part.group(1)) * _unit_s(reader, part.group(2), start)
            at = part.end()
    if total_s <= 0:
        reader.fail_at(start, "an interval must be longer than nothing")
    return total_s


def _list(reader: Reader) -> list[Any]:
    reader.expect("(")
    values: list[Any] = []
    if reader.accept(")"):
        return values
    while True:
        values.append(read_literal(reader))
        if not reader.accept(","):
            break
    reader.expect(")")
    return values


def _pairs(reader: Reader, function: str) -> dict[str, Any]:
    start = reader.offset
    flat = _list(reader)
    if len(flat) % 2 or not all(isinstance(key, str) for key in flat[::2]):
        reader.fail_at(start, f"{function}(…) takes pairs of a quoted key and a value")
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _dated(reader: Reader, kind: str) -> str:
    start = reader.offset
    text = reader.string(f"a quoted {kind.lower()}")
    try:
        return str(coerce(text, kind))
    except ValueError as error:
        reader.fail_at(start, str(error))


def read_argument(reader: Reader) -> Any:
    """A value, or ANY: the subscription leaves the parameter open."""
    return dict(ANY) if reader.accept("ANY") else read_literal(reader)


def read_literal(reader: Reader) -> Any:
    """A JSON-able value. What cannot be one is refused: arguments are data, not expressions."""
    token = reader.token
    if token is not None and token.token_type is TokenType.STRING:
        return reader.advance().text
    sign = -1 if reader.accept("-") else 1
    token = reader.token
    if token is not None and token.token_type is TokenType.NUMBER:
        start = reader.offset
        text = reader.advance().text
        try:
            return sign * (int(text) if text.isdigit() else float(text))
        except ValueError:
            reader.fail_at(start, f"cannot read the number {text!r}")
    if sign == 1:
        for word, value in (("TRUE", True), ("FALSE", False), ("NULL", None)):
            if reader.accept(word):
                return value
        for kind in ("TIMESTAMP", "DATE"):
            if reader.accept(kind):
                return _dated(reader, kind)
        if reader.accept("ARRAY"):
            return _list(reader)
        for function in ("MAP", "NAMED_STRUCT"):
            if reader.accept(function):
                return _pairs(reader, function.lower())
    raise reader.expected(
        "a value",
        hint="numbers, 'text', TRUE, FALSE, NULL, TIMESTAMP '…', DATE '…', array(…), map(…)",
    )
