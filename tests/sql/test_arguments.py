"""Arguments bound to a channel's parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tocsin.errors import InvalidInput
from tocsin.model import ANY, Channel, Parameter
from tocsin.sql import bind_arguments

CHANNEL = Channel(
    "c", "continuous", (Parameter("a", "INT"), Parameter("b", "TIMESTAMP")), "", (), ()
)


def test_equal_questions_bind_to_equal_arguments() -> None:
    by_position = bind_arguments(CHANNEL, [1.0, "2026-01-01T01:00:00+01:00"])
    by_name = bind_arguments(CHANNEL, {"B": "2026-01-01", "a": 1})
    assert by_position == by_name == {"a": 1, "b": "2026-01-01T00:00:00.000000Z"}
    assert list(by_name) == ["a", "b"]


def test_any_binds_to_one_form_that_is_json() -> None:
    bound = bind_arguments(CHANNEL, [ANY, 0])
    assert bound == bind_arguments(CHANNEL, {"b": 0, "A": {"any": 1}})
    assert json.dumps(bound) == '{"a": {"any": true}, "b": "1970-01-01T00:00:00.000000Z"}'


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"a": 1}, "b"),
        ([1], "b"),
        ({"a": 1, "b": 0, "c": 2}, "c"),
        ([1, 2, 3], "3"),
        ({"a": "x", "b": 0}, "a"),
        ({"a": 1, "b": None}, "b"),
        ({"a": {"any": True}}, "b"),
        ({"a": 1, "b": {"any": False}}, "b"),
        ({"a": {"any": True, "all": True}, "b": 0}, "a"),
    ],
)
def test_bad_arguments_name_the_parameter(given: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bind_arguments(CHANNEL, given)
    assert caught.value.field == field
    assert "c(a INT, b TIMESTAMP)" in str(caught.value)
