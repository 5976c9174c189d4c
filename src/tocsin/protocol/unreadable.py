"""One error for all that cannot be read.

A decoder has three ways to fail: what is no JSON or does not fit is a `DecodeError`, bytes that are
no text a `UnicodeDecodeError`, and what nests too deep a `RecursionError`. Who takes what others
wrote means all three: a record that raises something else would be met again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def readable(decode: Callable[[Any], T]) -> Callable[[bytes | str], T]:
    """The same decoder, which raises `msgspec.DecodeError` alone."""

    @wraps(decode)
    def checked(text: bytes | str) -> T:
        try:
            return decode(text)
        except (UnicodeDecodeError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from None

    return checked
