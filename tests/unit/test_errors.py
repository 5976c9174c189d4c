"""The tree of errors: what one service raises, the other raises again."""

from __future__ import annotations

import json

import pytest

from tocsin.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    StatementError,
    TocsinError,
    is_bug,
)
from tocsin.protocol.failure import ErrorInfo, error_info, error_of


def test_an_error_is_read_back_as_what_it_was() -> None:
    raised = NotFound("no channel is called 'flods'", field="channel", hint="SHOW CHANNELS")
    read = error_of(error_info(raised))
    assert type(read) is NotFound
    assert (read.message, read.field, read.hint) == (raised.message, raised.field, raised.hint)
    placed = error_of(error_info(StatementError("odd", line=2, column=7)))
    assert isinstance(placed, StatementError)
    assert (placed.line, placed.column) == (2, 7)


def test_an_error_of_an_unknown_code_is_an_error_still() -> None:
    assert type(error_of(ErrorInfo("new", "?"))) is TocsinError


def test_two_kinds_of_error_cannot_have_the_same_code() -> None:
    with pytest.raises(TypeError, match="Clash needs a code of its own: 'conflict' is taken"):

        class Clash(TocsinError):
            code = "conflict"

    with pytest.raises(TypeError, match="'invalid_input' is taken"):

        class Unnamed(InvalidInput):
            pass

    with pytest.raises(TypeError, match="'internal' is taken"):

        class Nameless(TocsinError):
            pass

    assert type(error_of(ErrorInfo("conflict", "?"))) is Conflict


def test_a_mistake_in_our_own_code_is_a_bug_and_what_others_raise_is_not() -> None:
    with pytest.raises(AttributeError) as of_ours:
        error_of(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError) as of_a_library:
        json.loads(7)  # type: ignore[arg-type]
    assert is_bug(of_ours.value)
    assert not is_bug(of_a_library.value)
    assert not is_bug(OSError("no answer"))
    assert not is_bug(AttributeError("never raised"))
