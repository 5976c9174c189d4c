"""Settings as people write them, `FIELD=VALUE`, for the structs that have the fields."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tocsin.errors import InvalidInput, field_named

T = TypeVar("T")


def divided(
    given: Mapping[str, str], kinds: Sequence[type[Struct]], but: Mapping[str, str] = {}
) -> list[dict[str, Any]]:
    """What was given for the fields of each struct. `but` are fields that are not to be set, and
    what to do instead."""
    groups: list[dict[str, Any]] = [{} for _ in kinds]
    for key, text in given.items():
        if key in but:
            raise InvalidInput(f"{key} cannot be set", field="set", hint=but[key])
        for values, kind in zip(groups, kinds, strict=True):
            if key in kind.__struct_fields__:
                values[key] = _value(text, typing.get_type_hints(kind)[key])
                break
        else:
            known = [name for kind in kinds for name in kind.__struct_fields__ if name not in but]
            raise InvalidInput(
                f"there is no setting {key!r}", field="set", hint=f"one of {', '.join(known)}"
            )
    return groups


def converted(values: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        name = field_named(error) or ""
        given = f"{name}={values[name]}: " if name in values else ""
        raise InvalidInput(f"--set {given}{error}", field="set") from None


def _value(text: str, kind: Any) -> Any:
    """A number or a word; several of them, separated by commas, where the field holds several."""
    parts = [part for part in re.split(r"[,\s()\[\]]+", text) if part]
    return parts[0] if len(parts) == 1 and typing.get_origin(kind) is not tuple else parts
