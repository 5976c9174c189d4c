# ruff: noqa: S608 (statements of ours, with made-up columns)
"""Reading statements takes time in proportion to their length: what is done for each of them does
not begin at the start of the text again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tocsin.errors import StatementError
from tocsin.model import Column, Dataset
from tocsin.sql import parse, parse_filter
from tocsin.sql.tokens import MOST_TOKENS, Places, place

MOST_GROWTH = 4.6  # of four times as much


class Steps:
    """Counts the lines of our own code and the characters that searches in texts pass over."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: Any, event: str, _: Any) -> Steps | None:
        if event == "call" and "tocsin" not in frame.f_code.co_filename:
            return None
        self.count += 1
        return self


def steps(read: Callable[[], object]) -> int:
    counting = Steps()
    before = sys.gettrace()
    sys.settrace(counting)
    try:
        read()
    finally:
        sys.settrace(before)
    return counting.count


TEXTS: dict[str, Callable[[int], str]] = {
    "statements": lambda n: "SHOW DATASETS;\n" * (n // 10),
    "rows": lambda n: "INSERT INTO d VALUES (1)" + ",\n(1)" * n,
    "columns": lambda n: (
        f"INSERT INTO d ({','.join(f'c{i}' for i in range(n))})"
        f" VALUES ({','.join('1' for _ in range(n))})"
    ),
    "arguments": lambda n: f"SUBSCRIBE TO c({','.join(f'a{i} => 1' for i in range(n))})",
    "types": lambda n: f"CREATE DATASET d ({','.join(f'c{i} INT' for i in range(n))})",
}


@pytest.mark.parametrize("text", TEXTS)
def test_four_times_the_text_takes_four_times_the_steps(text: str) -> None:
    made = TEXTS[text]
    parse(made(100))  # what is made once
    few, many = (steps(partial(parse, made(n))) for n in (400, 1600))
    assert many < MOST_GROWTH * few


@pytest.mark.parametrize("text", ["", "a", "\n", "a\nbc\n\nd", "\n\n\n"])
def test_places_are_those_that_counting_gives(text: str) -> None:
    places = Places(text)
    for offset in range(len(text) + 1):
        assert places.of(offset) == place(text, offset)


def test_places_do_not_read_the_text_again() -> None:
    class Text(str):
        reads = 0

        def count(self, *given: Any) -> int:
            Text.reads += 1
            return super().count(*given)

        def rfind(self, *given: Any) -> int:
            Text.reads += 1
            return super().rfind(*given)

    parse(Text("SHOW DATASETS;\n" * 500))
    assert Text.reads == 0


def test_a_text_of_too_many_words_is_refused_before_they_are_made() -> None:
    with pytest.raises(StatementError, match="more than 250000 words"):
        parse("1 " * (MOST_TOKENS + 1))
    parse("INSERT INTO d VALUES ('" + "x, " * MOST_TOKENS + "')")  # one text is one word


@pytest.mark.parametrize("text", ["/*", "'", '"', "`", "'\\"])
def test_what_is_left_open_is_looked_at_once(text: str) -> None:
    with pytest.raises(StatementError):
        parse(text * 20_000)


def test_patterns_of_many_signs_are_refused_at_once() -> None:
    dataset = Dataset("d", (Column("t", "STRING"),), created_at=1.0)
    with pytest.raises(StatementError, match="more than a beginning"):
        parse_filter("t LIKE '" + "%" * 50_000 + "_'", dataset)
