"""Claims of a subscriber's token, as the values of what is bound to them.

The claims were verified by whoever hands them in; here they are data that must fit a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.errors import Forbidden
from tocsin.model import Parameter
from tocsin.sql.coercion import coerce
from tocsin.sql.tokens import Reader

Claims = Mapping[str, Any]
"""Everything that a token says, by name."""

_MOST_CHARACTERS = 255


def read_claim(reader: Reader) -> str:
    """What follows BOUND: TO CLAIM and the claim's name."""
    reader.expect("TO", "CLAIM")
    start = reader.offset
    name = reader.string("the claim's name in quotes")
    if not 0 < len(name) <= _MOST_CHARACTERS or not name.isprintable() or set(name) & set("'\\"):
        reader.fail_at(
            start,
            f"{name!r} cannot be a claim's name",
            field="claim",
            hint=f"1 to {_MOST_CHARACTERS} printable characters, without quotes and backslashes",
        )
    return name


def claim_of(claims: Claims, name: str, kind: str, field: str) -> Any:
    """The value of a claim in the canonical form of a type. `field` is what is bound to it."""
    value = claims.get(name)
    if value is None:
        raise Forbidden(
            f"{field!r} is bound to the claim {name!r}, which this token lacks",
            field=field,
            hint=f"show a token that says {name!r}",
        )
    try:
        value = _scalar(value)
        value = coerce(value, kind)
    except ValueError as error:
        raise Forbidden(
            f"{field!r} is bound to the claim {name!r} of the token: {error}",
            field=field,
            hint=f"show a token whose {name!r} is {kind}",
        ) from None
    return value


def _scalar(value: Any) -> Any:
    """A claim may be anything that JSON can say; what a text cannot carry further is refused."""
    if not isinstance(value, str | int | float | bool):
        raise ValueError(
            f"expected one value, got {'a list' if isinstance(value, list) else 'an object'}"
        )
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("it is no Unicode text") from None
    return value


def described(parameter: Parameter) -> str:
    """The parameter as CREATE CHANNEL declares it."""
    words = [parameter.name, parameter.type]
    if parameter.required:
        words.append("REQUIRED")
    if parameter.claim is not None:
        words.append(f"BOUND TO CLAIM '{parameter.claim}'")
    return " ".join(words)
