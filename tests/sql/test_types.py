"""Types and the values that fit them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.sql import coerce, coerce_text, parse_type

SCALARS = ["BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "TIMESTAMP", "DATE"]
TYPES = st.recursive(
    st.sampled_from([*SCALARS, "DECIMAL(9,3)"]),
    lambda inner: st.one_of(
        inner.map(lambda t: f"ARRAY<{t}>"),
        inner.map(lambda t: f"MAP<STRING,{t}>"),
        st.tuples(inner, inner).map(lambda two: f"STRUCT<a:{two[0]},b:{two[1]}>"),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_canonical_text_reads_back_as_itself(text: str) -> None:
    assert str(parse_type(text)) == text
    assert str(parse_type(text.lower().replace(",", " , "))) == text


@pytest.mark.parametrize(
    ("value", "kind", "canonical"),
    [
        (3, "INT", 3),
        (3.0, "INT", 3),
        (None, "INT", None),
        (2**62, "BIGINT", 2**62),
        (3, "DOUBLE", 3.0),
        (True, "BOOLEAN", True),
        ("x", "STRING", "x"),
        ("12.5", "DECIMAL(5,2)", "12.50"),
        (0.1, "DECIMAL(5,2)", "0.10"),
        (-7, "DECIMAL(5,2)", "-7.00"),
        ("2026-11-16T02:00:00.123456Z", "TIMESTAMP", "2026-11-16T02:00:00.123456Z"),
        ("2026-11-16 03:00:00+01:00", "TIMESTAMP", "2026-11-16T02:00:00.000000Z"),
        ("2026-11-16T02:00:00", "TIMESTAMP", "2026-11-16T02:00:00.000000Z"),
        (0, "TIMESTAMP", "1970-01-01T00:00:00.000000Z"),
        (1.5, "TIMESTAMP", "1970-01-01T00:00:01.500000Z"),
        ("2026-02-28", "DATE", "2026-02-28"),
        ([1, None, 2.0], "ARRAY<INT>", [1, None, 2]),
        ({"k": 1}, "MAP<STRING,DOUBLE>", {"k": 1.0}),
        ({"a": 1}, "STRUCT<a:INT,b:STRING>", {"a": 1, "b": None}),
    ],
)
def test_what_fits_takes_its_canonical_form(value: Any, kind: str, canonical: Any) -> None:
    made = coerce(value, kind)
    assert made == canonical
    assert type(made) is type(canonical)
    assert coerce(made, kind) == made


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("3", "INT"),
        (3.5, "INT"),
        (True, "INT"),
        (2**31, "INT"),
        (2**63, "BIGINT"),
        (math.nan, "DOUBLE"),
        (math.inf, "DOUBLE"),
        (10**400, "DOUBLE"),
        (1e39, "FLOAT"),
        (True, "DOUBLE"),
        (1, "BOOLEAN"),
        (1, "STRING"),
        ("1.234", "DECIMAL(5,2)"),
        (1000, "DECIMAL(5,2)"),
        ("NaN", "DECIMAL(5,2)"),
        ("yesterday", "TIMESTAMP"),
        (1e300, "TIMESTAMP"),
        ("0001-01-01T00:00:00+14:00", "TIMESTAMP"),
        ("2026-02-30", "DATE"),
        (20260228, "DATE"),
        ("x", "ARRAY<INT>"),
        ([1, "x"], "ARRAY<INT>"),
        ({1: 1}, "MAP<STRING,INT>"),
        ({"c": 1}, "STRUCT<a:INT>"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=r"expected|no field"):
        coerce(value, kind)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", "INT", 3),
        (" 2.5 ", "DOUBLE", 2.5),
        ("", "INT", None),
        ("", "STRING", ""),
        ("TRUE", "BOOLEAN", True),
        ("12.5", "DECIMAL(5,2)", "12.50"),
        ("2026-01-01", "TIMESTAMP", "2026-01-01T00:00:00.000000Z"),
        ("[1,2]", "ARRAY<INT>", [1, 2]),
    ],
)
def test_text_is_read_by_its_type(text: str, kind: str, value: Any) -> None:
    assert coerce_text(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"), [("x", "INT"), ("yes", "BOOLEAN"), ("nan", "DOUBLE"), ("[1", "ARRAY<INT>")]
)
def test_text_that_does_not_fit_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        coerce_text(text, kind)


@pytest.mark.parametrize("text", ["", "FROB", "ARRAY", "ARRAY<INT", "DECIMAL(50,2)", "INT INT"])
def test_broken_types_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_type(text)
