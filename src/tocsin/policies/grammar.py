"""How a policy is written, in every family: `name`, `name(1, 2)`, `name(parameter=2)`.

Knows no policies: what a name and its values mean, the registry of the family says.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tocsin.errors import SettingError

_CALL = re.compile(r"\s*(?P<name>[^\s=(),]+)\s*(?:\((?P<values>[^()]*)\))?\s*")


class Call(Struct, frozen=True):
    """As it was written; nothing is checked yet."""

    name: str
    positional: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()


def read_call(text: str, what: str, field: str) -> Call:
    """The whole text is one policy."""
    match = _CALL.fullmatch(text)
    if match is None:
        message = f"{text!r} is not {what}" if text.strip() else f"{what} is empty"
        raise SettingError(message, field=field, hint="write name or name(parameter=value, …)")
    return _call(match, field)


def read_call_at(text: str, at: int, field: str) -> tuple[Call, int] | None:
    """The policy that begins there, and where it ends; None: none does."""
    match = _CALL.match(text, at)
    return None if match is None else (_call(match, field), match.end())


def _call(match: re.Match[str], field: str) -> Call:
    positional: list[str] = []
    named: list[tuple[str, str]] = []
    for value in (match["values"] or "").split(","):
        name, given, number = value.partition("=")
        if given:
            named.append((name.strip(), number.strip()))
        elif named and value.strip():
            raise SettingError(
                f"{match[0].strip()!r}: {value.strip()!r} has no name, but follows one that has",
                field=field,
                hint="write values by place first, then name=value",
            )
        elif value.strip():
            positional.append(value.strip())
    return Call(match["name"], tuple(positional), tuple(named))
