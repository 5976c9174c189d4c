"""Depth is known before decoding, and quotes hide brackets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.protocol.nesting import MOST_DEPTH, too_deep

VALUES = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ab', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=3), inner)
    ),
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(VALUES, st.integers(0, 6))
def test_depth_is_that_of_the_decoded_value(value: Any, most: int) -> None:
    assert too_deep(json.dumps(value).encode(), most) is (depth(value) > most)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b'["' + b"[" * 100_000])
def test_what_is_no_json_is_measured_all_the_same(text: bytes) -> None:
    assert too_deep(text) is not text.startswith(b'["')


def test_siblings_do_not_count() -> None:
    assert not too_deep(b"[" + b"[]," * 100_000 + b"[]]")
    assert too_deep(b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1))
    assert not too_deep(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
