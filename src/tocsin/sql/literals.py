"""Values written in a statement: numbers, strings, dates, arrays, maps, intervals, and ANY."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.tokenizer_core import TokenType

from tocsin.durations import UNIT_NAMES, parse_duration_s, unit_s
from tocsin.errors import InvalidInput
from tocsin.model import ANY
from tocsin.protocol.numbers import exact
from tocsin.sql.coercion import coerce
from tocsin.sql.tokens import Reader

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _unit_s(reader: Reader, word: str, offset: int) -> float:
    try:
        return unit_s(word)
    except InvalidInput as error:
        reader.fail_at(offset, error.message, hint=error.hint)


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
        total_s = float(amount) * _unit_s(reader, reader.word(UNIT_NAMES), unit_at)
    else:
        try:
            return parse_duration_s(amount)
        except InvalidInput as error:
            reader.fail_at(start, error.message, hint=error.hint)
    if total_s <= 0:
        reader.fail_at(start, "an interval must be longer than nothing")
    return total_s


def read_topic(reader: Reader) -> str:
    """The quoted name of a topic of Kafka."""
    start = reader.offset
    topic = reader.string("a topic's name in quotes")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        reader.fail_at(
            start,
            f"{topic!r} cannot name a topic",
            field="topic",
            hint="topics have letters, digits, '.', '_' and '-', at most 249 of them",
        )
    return topic


def _list(reader: Reader) -> list[Any]:
    return [] if reader.accept("(", ")") else reader.listed(read_literal, "a value")


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
    sign = "-" if reader.accept("-") else ""
    token = reader.token
    if token is not None and token.token_type is TokenType.NUMBER:
        start = reader.offset
        text = reader.advance().text
        try:
            return int(sign + text) if text.isdigit() else exact(sign + text)
        except ValueError:
            reader.fail_at(start, f"cannot read the number {text!r}")
    if not sign:
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
