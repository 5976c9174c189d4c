"""Bearer tokens with scopes, those of the one secret (JWT, HS256), and the signature on notices.

`service.keys` has the tokens of public keys. Knows nothing of HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import jwt
from msgspec import Struct

from tocsin.errors import Forbidden, InvalidInput, SettingError, Unauthenticated

SCOPES = ("publish", "subscribe", "admin", "broker", "gateway", "writer")
MINIMUM_SECRET_CHARACTERS = 16
NOTICE_TOLERANCE_S = 300.0
LEEWAY_S = 60.0  # so far may the clocks of two machines be apart
_SIGNATURE = re.compile(r"t=(?P<stamp>[0-9]{1,12}),v1=(?P<digest>[0-9a-f]{64})")


class Identity(Struct, frozen=True):
    """Who is calling, and what they may do."""

    subject: str
    scopes: frozenset[str]
    expires_at: float  # from then on it is not taken: its end, and the leeway for clocks
    roles: frozenset[str] = frozenset()  # what grants are given to
    claims: Mapping[str, Any] = {}  # everything the token says; parameters may be bound to it
    key_id: str = ""  # of the public key that vouches for it; empty: the secret does

    @property
    def broker(self) -> str | None:
        """The one broker that it may act for; None: it is not held to one. What the shared secret
        signs is held to none: whoever has that may sign anything."""
        held = bool(self.key_id) and "broker" in self.scopes and "admin" not in self.scopes
        return self.subject if held else None

    def require_broker(self, name: str) -> None:
        """Raise if it is a broker's, and of another one."""
        if self.broker not in (None, name):
            raise Forbidden(
                f"this token is of broker {self.subject!r}, and not of {name!r}",
                field="name",
                hint="every broker has a credential of its own name",
            )

    def require(self, *any_of: str) -> None:
        """Raise unless at least one of the scopes was granted; no scope asked means any token."""
        if any_of and not self.scopes.intersection(any_of):
            needed = " or ".join(any_of)
            raise Forbidden(
                f"this token of {self.subject!r} lacks the scope {needed}",
                field="scope",
                hint=f"make one with: tocsin token --scope {any_of[0]}",
            )


def check_secret(secret: str) -> str:
    """Refuse a secret that guessing would find."""
    if len(secret) < MINIMUM_SECRET_CHARACTERS:
        raise SettingError(
            f"setting secret needs at least {MINIMUM_SECRET_CHARACTERS} characters",
            field="secret",
            hint="set TOCSIN_SECRET to a long random text, the same for every service",
        )
    return secret


def mint(
    secret: str,
    subject: str,
    scopes: Iterable[str],
    *,
    expires_s: float,
    now: float,
    roles: Iterable[str] = (),
) -> str:
    """A token for `subject`, signed with the secret."""
    claims = claims_for(subject, scopes, expires_s=expires_s, now=now, roles=roles)
    return jwt.encode(claims, check_secret(secret), algorithm="HS256")


def claims_for(
    subject: str,
    scopes: Iterable[str],
    *,
    expires_s: float,
    now: float,
    roles: Iterable[str] = (),
) -> dict[str, Any]:
    """What a token for `subject` says, whoever signs it."""
    granted, named = sorted(set(scopes)), sorted(set(roles))
    if not subject:
        raise InvalidInput("a token needs a subject", field="subject")
    if not granted:
        raise InvalidInput(f"a token needs a scope: {', '.join(SCOPES)}", field="scope")
    for scope in granted:
        if scope not in SCOPES:
            raise InvalidInput(
                f"no scope is called {scope!r}", field="scope", hint=f"one of {', '.join(SCOPES)}"
            )
    if expires_s <= 0:
        raise InvalidInput("a token must expire in the future", field="expires")
    claims: dict[str, Any] = {
        "sub": subject,
        "scope": " ".join(granted),
        "iat": int(now),
        "exp": int(now + expires_s),
        "jti": secrets.token_urlsafe(12),
    }
    if named:
        claims["roles"] = named
    return claims


def verify(secret: str, token: str | None, leeway_s: float = LEEWAY_S) -> Identity:
    """Who the token speaks for; raises Unauthenticated with what is wrong with it."""
    if not token:
        raise no_token()
    try:
        identity = _decoded(secret, token, leeway_s)
    except jwt.ExpiredSignatureError:
        raise expired() from None
    except (jwt.InvalidTokenError, OverflowError, RecursionError) as error:
        raise Unauthenticated(f"the token is not valid: {error}") from None
    if identity.expires_at <= time.time():
        raise expired()
    return identity


@lru_cache(maxsize=4096)  # the same tokens come with every call; a failure is not remembered
def _decoded(secret: str, token: str, leeway_s: float) -> Identity:
    claims = jwt.decode(
        token,
        secret,
        algorithms=["HS256"],
        leeway=leeway_s,
        options={"require": ["exp", "sub"]},
    )
    return Identity(
        subject=str(claims["sub"]),
        scopes=frozenset(names_in(claims.get("scope", ""))),
        expires_at=float(claims["exp"]) + leeway_s,
        roles=frozenset(names_in(claims.get("roles", ()))),
        claims=claims,
    )


def names_in(claim: Any) -> list[str]:
    """A claim that lists names: words of a text, or texts of an array. Anything else lists none."""
    if isinstance(claim, str):
        return claim.split()
    return [name for name in claim if isinstance(name, str)] if isinstance(claim, list) else []


def no_token() -> Unauthenticated:
    return Unauthenticated(
        "this call needs a token", hint="send the header Authorization: Bearer TOKEN"
    )


def expired() -> Unauthenticated:
    return Unauthenticated("the token has expired", hint="ask for a new one")


def bearer(header: str | None) -> str | None:
    """The token inside an Authorization header."""
    kind, _, token = (header or "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def sign_notice(secret: str, body: bytes, now: float) -> str:
    """The value of the Tocsin-Signature header."""
    stamp = str(int(now))
    return f"t={stamp},v1={_digest(secret, stamp, body)}"


def check_signature(header: str | None, now: float) -> re.Match[str]:
    """Raise unless a signature could be one of ours. That is known before the body is read."""
    signature = _SIGNATURE.fullmatch(header or "")
    if signature is None:
        raise _not_signed()
    if abs(now - int(signature["stamp"])) > NOTICE_TOLERANCE_S:
        raise Unauthenticated("the notice was signed too long ago", field="signature")
    return signature


def verify_notice(secret: str, body: bytes, header: str | None, now: float) -> None:
    """Raise unless the notice was signed with our secret, recently."""
    if not secret:
        raise Unauthenticated("no secret for notices is agreed yet", field="signature")
    signature = check_signature(header, now)
    if not hmac.compare_digest(_digest(secret, signature["stamp"], body), signature["digest"]):
        raise _not_signed()


def _not_signed() -> Unauthenticated:
    return Unauthenticated("the notice's signature is missing or wrong", field="signature")


def _digest(secret: str, stamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
