"""Whatever bytes are sent as records, statements or frames: an answer of ours, never a fault."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.broker.server.requests import Malformed, parse
from tocsin.cluster.intake import Intake
from tocsin.errors import StatementError, TocsinError
from tocsin.intake.body_limits import Limits
from tocsin.intake.dead_letters import MOST_BYTES
from tocsin.intake.formats import Format, RawRecord, read
from tocsin.intake.json_elements import BrokenArrayError, elements
from tocsin.intake.sorting import MOST_LETTERS
from tocsin.intake.text_lines import text_lines
from tocsin.model import Column, Dataset
from tocsin.sql import parse as parse_statements
from tocsin.sql import parse_filter

DATASET = Dataset(
    "d",
    (
        Column("n", "BIGINT"),
        Column("t", "STRING"),
        Column("at", "TIMESTAMP"),
        Column("p", "DECIMAL(10,2)"),
        Column("a", "ARRAY<INT>"),
        Column("m", "MAP<STRING,STRUCT<x:DOUBLE>>"),
        Column("day", "DATE"),
    ),
    open=True,
    created_at=1.0,
)
INTAKE = Intake(None, lambda _: DATASET, 4096)  # type: ignore[arg-type]
LIMITS = Limits(records=200, record_bytes=4096, body_bytes=256 * 1024)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(["n", "N", "t", "at", "p", "a", "m", "day", "", "x", "\x00"])
RECORDS = st.dictionaries(NAMES, VALUES, max_size=5)
WRITTEN = (st.lists(RECORDS | VALUES, max_size=6) | VALUES).map(lambda v: json.dumps(v).encode())
PIECES = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\n", b"\r", b"1e999",
                     b"-", b"null", b'{"n":1}', b"\xff", b"\xef\xbb\xbf", b"n,t", b'""', b" ",
                     b"9" * 30, b'"\\ud800"', b'{"at":1e300}', b"\x00"]),
    max_size=40,
).map(b"".join)  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A body that was right, with a piece of something else in it."""
    body = draw(WRITTEN | PIECES)
    at = draw(st.integers(0, len(body)))
    return body[:at] + draw(PIECES | st.binary(max_size=8)) + body[at + draw(st.integers(0, 4)) :]


def taken(body: bytes, kind: Format) -> None:
    try:
        raw = read(body, kind, LIMITS)
        records = INTAKE.sort(DATASET, raw, "ann", "fuzz", most_letters=MOST_LETTERS)
    except TocsinError as error:
        assert error.field == "body"  # noqa: PT017 (some are taken)
        return
    assert len(records.good) + records.refused <= 200
    assert len(records.letters) <= MOST_LETTERS + 1
    assert sum(len(letter) for letter, _ in records.letters) < MOST_BYTES + 64 * 1024
    for record, extra in records.good:
        assert b"\n" not in record + (extra or b"")
        msgspec.json.decode(record)


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
@settings(max_examples=250)
@given(body=broken() | st.binary(max_size=64))
@example(body=b'{"n":' + b"9" * 5000 + b"}")
@example(body=b'{"a":' + b"[" * 500 + b"]" * 500 + b"}")
@example(body=b"[" * 100_000)
@example(body=b"n\n" + b"9" * 5000)
@example(body=b'a\n"[' + b"[" * 5000 + b'"')
@example(body=b'a\n"' + b"[" * 2000 + b"]" * 2000 + b'"')
@example(body=b"{}\n" * 201)
@example(body=b'{"x":' + b'"' + b"\\u0000" * 3000 + b'"}')
def test_any_body_is_taken_or_refused(kind: Format, body: bytes) -> None:
    taken(body, kind)
    taken(body + b" " * (64 * 1024), kind)  # a large one is read another way


@settings(max_examples=12)
@given(at=st.integers(0, 2000), put=st.binary(min_size=1, max_size=4))
def test_any_parquet_is_taken_or_refused(at: int, put: bytes) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2, 3], "t": ["a", None, "c"], "a": [[1], [], None]}), file)
    body = file.getvalue()
    at %= len(body)
    taken(body[:at] + put + body[at + len(put) :], "parquet")


@given(WRITTEN)
def test_elements_are_those_of_the_decoded_array(body: bytes) -> None:
    value = json.loads(body)
    if not isinstance(value, list):
        return
    found = [json.loads(body[element.start : element.end]) for element in elements(body)]
    assert json.dumps(found) == json.dumps(value)


@given(PIECES)
def test_what_is_no_array_ends(piece: bytes) -> None:
    """Whatever is found lies in the body, in order."""
    at = 0
    try:
        for element in elements(b"[" + piece):
            assert at <= element.start <= element.end <= len(piece) + 1
            at = element.end
    except BrokenArrayError:
        pass


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b" "]), max_size=20).map(b"".join))
def test_lines_are_those_of_splitlines(body: bytes) -> None:
    expected = [(n, text) for n, text in enumerate(body.splitlines(), start=1) if text]
    assert list(text_lines(body)) == expected


TEXT = """CREATE DATASET CHANNEL CONTINUOUS INSERT INTO VALUES SUBSCRIBE TO WHERE FROM LAST ON AS
    SELECT WITH DROP SHOW DESCRIBE UNSUBSCRIBE CHANGE SUBSCRIPTION KAFKA DELIVER KEEP BYTES INTERVAL
    RETAIN PRIMARY KEY OPEN ROUTED ARRAY MAP STRUCT DECIMAL INT STRING NULL TRUE ANY AND OR NOT LIKE
    IN BETWEEN near d c n ( ) , ; < > = => - ' '' \" ` /* */ -- . : 1 2e9 ² 99999999999999999999
    'x' '%a%' 1e999 é"""
WORDS = TEXT.split()
STATEMENTS = st.lists(st.sampled_from([*WORDS, "\n", "\x00"]), max_size=25).map(" ".join)


@settings(max_examples=300)
@given(STATEMENTS | st.text(max_size=40))
@example("UNSUBSCRIBE " + "9" * 5000)
@example("INSERT INTO d VALUES (" + "ARRAY(" * 2000)
@example("CREATE DATASET d (c " + "ARRAY<" * 2000)
@example("SELECT " + "(" * 5000)
@example("SUBSCRIBE TO c FROM LAST 99999999999999999999")
@example("CREATE DATASET d (a INT) RETAIN INTERVAL " + "9" * 400 + " DAYS")
def test_any_text_is_statements_or_an_error_with_its_place(text: str) -> None:
    try:
        parse_statements(text)
    except StatementError as error:
        assert error.line is not None  # noqa: PT017 (some are statements)
    with contextlib.suppress(StatementError):
        parse_filter(text, DATASET)


@settings(max_examples=300)
@given(broken() | st.binary(max_size=40))
@example(b'{"op":"subscribe","ref":1,"channel":"c","arguments":' + b"[" * 30_000)
@example(b'{"op":"publish","ref":1,"dataset":"d","records":[' + b'{"a":' * 5000 + b"1")
@example(b'{"op":' + b"[" * 900 + b"]" * 900 + b"}")
def test_any_frame_is_a_request_or_malformed(frame: bytes) -> None:
    try:
        parse(frame)
    except Malformed as wrong:
        assert len(wrong.error.message) < 1000  # noqa: PT017 (some are requests)


def test_a_record_is_whole_when_a_list_around_it_is_deep() -> None:
    deep: Any = {"x": 1}
    for _ in range(63):
        deep = {"x": deep}
    (record,) = read(json.dumps([deep]).encode(), "json")
    assert isinstance(record, RawRecord)
    (refused,) = read(json.dumps([{"x": deep}]).encode(), "json")
    assert not isinstance(refused, RawRecord)
