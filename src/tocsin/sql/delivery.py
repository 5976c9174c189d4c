"""The clause of a channel that says how its results leave besides through brokers.

DELIVER TO KAFKA 'topic'
DELIVER TO CONSUMER LOGS [SHARED] [ADMIT policy(number, …)] [KEEP n BYTES]
"""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from tocsin.errors import SettingError
from tocsin.model import ChannelKind, Delivery
from tocsin.policies import parse_admission
from tocsin.sql.literals import read_topic
from tocsin.sql.tokens import Reader


def read_delivery(reader: Reader, kind: ChannelKind) -> Delivery:
    """What follows DELIVER."""
    reader.expect("TO")
    if reader.accept("KAFKA"):
        return Delivery(topic=read_topic(reader))
    if not reader.sees("CONSUMER"):
        reader.fail("KAFKA 'topic' or CONSUMER LOGS")
    if kind != "continuous":
        reader.fail_at(
            reader.offset,
            "only a continuous channel has consumer logs",
            hint="each of its results stems from a publication, which is admitted or not",
        )
    reader.expect("CONSUMER", "LOGS")
    return _consumer_logs(reader)


def _consumer_logs(reader: Reader) -> Delivery:
    given: dict[str, Any] = {}
    while not reader.sees("AS"):
        if "shared" not in given and reader.accept("SHARED"):
            given["shared"] = True
        elif "admit" not in given and reader.accept("ADMIT"):
            given["admit"] = _policy(reader)
        elif "keep_bytes" not in given and reader.accept("KEEP"):
            given["keep_bytes"] = _bytes(reader)
        else:
            reader.fail("SHARED, ADMIT policy, KEEP n BYTES (each once) or AS")
    return Delivery(**given)


def _policy(reader: Reader) -> str:
    start = reader.offset
    reader.word("an admission policy")
    if reader.accept("("):
        while not reader.accept(")"):
            if reader.ended:
                reader.fail("')' after the policy's numbers")
            reader.advance()
    text = "".join(reader.text[start : reader.tokens[reader.at - 1].end + 1].split()).lower()
    try:
        parse_admission(text)
    except SettingError as error:
        reader.fail_at(start, error.message, field="ADMIT", hint=error.hint)
    return text


def _bytes(reader: Reader) -> int:
    start = reader.offset
    quoted = reader.token is not None and reader.token.token_type is TokenType.STRING
    size_bytes = None if quoted else reader.whole_number()
    if size_bytes is None:
        reader.fail("a number of bytes", hint="such as KEEP 1000000 BYTES")
    reader.expect("BYTES")
    if not size_bytes:
        reader.fail_at(start, "a log must keep something", field="KEEP")
    return size_bytes
