"""Numbers of JSON keep all their digits on the way in and out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.intake.formats import RawRecord, read
from tocsin.intake.validator import RecordValidator
from tocsin.model import Column, Dataset
from tocsin.protocol import client as frames
from tocsin.protocol import numbers
from tocsin.protocol.cluster import SubscriptionRequest
from tocsin.sql import Insert, Subscribe, coerce, parse

WIDE = "DECIMAL(38,10)"
LEDGER = Dataset(name="ledger", columns=(Column("amount", WIDE), Column("rate", "DOUBLE")))
AMOUNTS = st.decimals(
    min_value=-(10**27), max_value=10**27, places=10, allow_nan=False, allow_infinity=False
)
TEXTS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})\.[0-9]{1,30}([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def written(amount: Decimal) -> str:
    return format(amount, "f")


def stored(body: bytes, kind: Any) -> Any:
    """The amount, as the log keeps it."""
    (raw,) = read(body, kind)
    assert isinstance(raw, RawRecord)
    encoded = RecordValidator(LEDGER, limit_bytes=1000).encode(raw)
    assert isinstance(encoded, tuple), encoded
    return numbers.decode(encoded[0])["amount"]


@given(TEXTS)
def test_what_is_decoded_and_encoded_is_the_same_number(text: str) -> None:
    value = numbers.decode(f"[{text}]")
    assert Decimal(numbers.encode(value)[1:-1].decode()) == Decimal(text)


@pytest.mark.parametrize("text", ["0.1", "33.64125123412", "1.5e300", "-0.0", "5e-324"])
def test_what_a_float_holds_is_a_float(text: str) -> None:
    assert type(numbers.exact(text)) is float


@given(AMOUNTS)
@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_a_decimal_column_keeps_every_digit_that_was_sent(kind: str, amount: Decimal) -> None:
    text = written(amount)
    assert Decimal(stored(b'{"amount":%b}' % text.encode(), kind)) == amount
    assert Decimal(stored(b'{"amount":"%b"}' % text.encode(), kind)) == amount
    large = b"[" + b'{"amount":%b},' % text.encode() * 1 + b'{"amount":0}]'
    first = next(iter(read(large + b" " * 70_000, "json")))  # decoded element by element
    assert isinstance(first, RawRecord)
    assert Decimal(str(first.fields["amount"])) == amount


@given(AMOUNTS)
def test_statements_keep_every_digit_of_a_number(amount: Decimal) -> None:
    (insert,) = parse(f"INSERT INTO ledger VALUES ({written(amount)}, 1)")  # noqa: S608
    (subscribe,) = parse(f"SUBSCRIBE TO c({written(amount)})")
    assert isinstance(insert, Insert)
    assert isinstance(subscribe, Subscribe)
    assert Decimal(coerce(insert.rows[0][0], WIDE)) == amount
    assert isinstance(subscribe.arguments, list)
    assert Decimal(coerce(subscribe.arguments[0], WIDE)) == amount


@given(AMOUNTS)
def test_frames_and_bodies_pass_every_digit_on(amount: Decimal) -> None:
    text = written(amount)
    frame = b'{"op":"publish","ref":1,"dataset":"ledger","records":[{"amount":%b}]}'
    publish = frames.decode_request(frame % text.encode())
    assert isinstance(publish, frames.Publish)
    assert Decimal(stored(frames.encode(publish.records), "json")) == amount
    body = b'{"channel":"c","arguments":{"amount":%b}}' % text.encode()
    asked = numbers.decode_as(body, SubscriptionRequest | list[SubscriptionRequest])
    assert Decimal(coerce(asked.arguments["amount"], WIDE)) == amount


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12345678901234567890.5", "DOUBLE", 12345678901234567890.5),
        ("0.12345678901234567890", "DOUBLE", 0.12345678901234568),
        ("9007199254740993.0", "BIGINT", 9007199254740993),
        ("1700000000.12345678901", "TIMESTAMP", "2023-11-14T22:13:20.123457Z"),
    ],
)
def test_other_types_take_numbers_with_many_digits(text: str, kind: str, value: Any) -> None:
    assert coerce(numbers.decode(text), kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1e400", "DOUBLE"),
        ("1e400", "BIGINT"),
        ("1e999999999", "BIGINT"),
        ("1e999999999", "TIMESTAMP"),
        ("9223372036854775808.0", "BIGINT"),
        ("0.12345678901234567890", "BIGINT"),
        ("0.12345678901234567890", "STRING"),
        ("0.12345678901234567890", WIDE),
    ],
)
def test_what_does_not_fit_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        coerce(numbers.decode(text), kind)
