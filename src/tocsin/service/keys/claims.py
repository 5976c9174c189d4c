"""What a token says, read with care: its parts, its claims, and who it speaks for.

A token is text of a stranger until its signature is checked; what it holds twice, or deeper than
anybody needs, is no token.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.service.tokens import SCOPES, names_in

MOST_CHARACTERS = 8192
_TIMES = ("exp", "nbf", "iat")


class NoToken(ValueError):
    """What is wrong with a token's form."""


class TokenParts(Struct, frozen=True):
    header: dict[str, Any]
    claims: dict[str, Any]


def parts_of(token: str) -> TokenParts:
    """Nothing of it is to be believed yet."""
    if len(token) > MOST_CHARACTERS:
        raise NoToken(f"it has more than {MOST_CHARACTERS} characters")
    texts = token.split(".")
    if len(texts) != 3:
        raise NoToken("it has not three parts")
    header, claims = _object(texts[0], "header"), _object(texts[1], "claims")
    if "crit" in header or header.get("b64", True) is not True:
        raise NoToken("it asks for extensions that nobody here knows")
    for name in _TIMES:
        time = claims.get(name)
        if time is not None and not _is_time(time):
            raise NoToken(f"{name} is not a time")
    return TokenParts(header, claims)


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value = json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        doubled = isinstance(error, NoToken)
        raise NoToken(str(error) if doubled else f"its {what} cannot be read") from None
    if not isinstance(value, dict):
        raise NoToken(f"its {what} cannot be read")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise NoToken("it says something twice")
    return value


def _is_time(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and math.isfinite(value) and 0 <= value < 1e12


class ClaimMap(Struct, frozen=True):
    """Which claims of a provider's tokens say who somebody is, and which of their roles give which
    scopes."""

    subject: str = "sub"
    scopes: str = "scope"
    roles: str = "roles"
    granted: Mapping[str, frozenset[str]] = {}  # scope → roles of which any gives it

    @classmethod
    def read(cls, claims: str, scopes: str) -> ClaimMap:
        """Of the settings `token_claims` and `token_scopes`."""
        names = _pairs(claims, "token_claims", ("subject", "scopes", "roles"))
        granted = {
            scope: frozenset(roles.split(","))
            for scope, roles in _pairs(scopes, "token_scopes", SCOPES).items()
        }
        return cls(**names, granted=granted)

    def subject_of(self, claims: Mapping[str, Any]) -> str:
        subject = _claim(claims, self.subject)
        if not isinstance(subject, str) or not subject:
            raise NoToken(f"its claim {self.subject} names nobody")
        return subject

    def roles_of(self, claims: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(names_in(_claim(claims, self.roles)))

    def scopes_of(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """Scopes that the token names, and those that its roles give."""
        roles = self.roles_of(claims) | {"*"}
        given = {scope for scope, any_of in self.granted.items() if any_of & roles}
        return frozenset(names_in(_claim(claims, self.scopes))) & frozenset(SCOPES) | given


OWN_CLAIMS = ClaimMap()
"""Of tokens that we make."""


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name; else one within others: `realm_access.roles`."""
    value: Any = claims
    if name in claims:
        return claims[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _pairs(text: str, setting: str, known: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for pair in text.split():
        name, equals, value = pair.partition("=")
        if name not in known or not equals or not value:
            raise SettingError(
                f"setting {setting}: {pair!r} is not NAME=VALUE with a NAME of {', '.join(known)}",
                field=setting,
            )
        pairs[name] = value
    return pairs
