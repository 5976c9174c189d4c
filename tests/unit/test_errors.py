"""The tree of errors: what one service raises, the other raises again."""

from __future__ import annotations

import pytest

from tocsin.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    StatementError,
    TocsinError,
    error_from_dict,
)


def test_an_error_is_read_back_as_what_it_was() -> None:
    told = NotFound("no channel is called 'flods'", field="channel", hint="SHOW CHANNELS")
    read = error_from_dict(told.as_dict())
    assert type(read) is NotFound
    assert (read.message, read.field, read.hint) == (told.message, told.field, told.hint)
    placed = error_from_dict(StatementError("odd", line=2, column=7).as_dict())
    assert isinstance(placed, StatementError)
    assert (placed.line, placed.column) == (2, 7)


def test_an_error_of_an_unknown_code_is_an_error_still() -> None:
    assert type(error_from_dict({"code": "new", "message": "?"})) is TocsinError


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

    assert type(error_from_dict({"code": "conflict", "message": "?"})) is Conflict
