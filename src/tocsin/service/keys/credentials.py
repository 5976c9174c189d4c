"""What a broker shows to the cluster, the coordinator and its neighbours, and a gateway or a writer
to the cluster: a token for its name.

It signs one itself, with the shared secret or with a key of its own, or it was given one. Nothing
here needs its clock to be right: a token says no beginning, lasts far longer than it is
used, and is renewed by a steady clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import jwt
from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.service.keys.files import WatchedFile
from tocsin.service.secret import takes_secret
from tocsin.service.tokens import check_secret, claims_for
from tocsin.settings import Settings

TOKEN_S = 3600.0
FRESH_S = TOKEN_S / 4  # then it is signed anew: three quarters are left for clocks
LINK = "tocsin-link:"
"""How the audience of a token begins that is for one neighbour, and of no use elsewhere."""


class Credential(Protocol):
    def token(self, audience: str = "") -> str:
        """A token that is good now. `audience`: for whom alone, as far as the broker can say so."""


class SignedCredential:
    """The service signs."""

    def __init__(
        self,
        name: str,
        sign: Callable[[Mapping[str, Any]], str],
        *,
        bound: bool,
        scope: str = "broker",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`bound`: tokens say for whom they are."""
        self._name = name
        self._scope = scope
        self._sign = sign
        self._bound = bound
        self._clock = clock
        self._signed: dict[str, tuple[float, str]] = {}

    def token(self, audience: str = "") -> str:
        audience, now = audience if self._bound else "", self._clock()
        signed_at, token = self._signed.get(audience, (0.0, ""))
        if not token or now - signed_at >= FRESH_S:
            token = self._sign(self._claims(audience))
            self._signed[audience] = now, token
        return token

    def _claims(self, audience: str) -> dict[str, Any]:
        claims = claims_for(self._name, [self._scope], expires_s=TOKEN_S, now=time.time())
        del claims["iat"]  # our clock may be ahead of theirs
        return claims | ({"aud": audience} if audience else {})


class GivenCredential:
    """The service was given a token, or a file in which somebody puts a fresh one in time."""

    def __init__(self, text: str) -> None:
        self._token = "" if _is_file(text) else text.strip()
        self._file = WatchedFile(Path(text)) if _is_file(text) else None

    def token(self, audience: str = "") -> str:
        if self._file is not None:
            try:
                body = self._file.changed()
            except OSError:
                body = None  # the one read before may still be good
            if body is not None:
                self._token = body.decode("utf-8", "replace").strip()
        return self._token


class _Place(Struct, frozen=True):
    """Where the settings of a kind of service name its credential."""

    kind: str
    name: str
    key: str
    token: str

    @property
    def key_setting(self) -> str:
        return f"{self.kind}_key"

    @property
    def token_setting(self) -> str:
        return f"{self.kind}_token"


def credential_of(settings: Settings) -> Credential:
    """A broker's, as the settings say: its key, its token, or the secret."""
    named = settings.broker_name, settings.broker_key, settings.broker_token
    return _credential(settings, _Place("broker", *named))


def gateway_credential(settings: Settings) -> Credential:
    """The same of a gateway."""
    named = settings.gateway_name, settings.gateway_key, settings.gateway_token
    return _credential(settings, _Place("gateway", *named))


def writer_credential(settings: Settings) -> Credential:
    """The same of a writer of matches."""
    named = settings.writer_name, settings.writer_key, settings.writer_token
    return _credential(settings, _Place("writer", *named))


def _credential(settings: Settings, place: _Place) -> Credential:
    if place.key:
        return _of_key(place)
    if place.token:
        return _of_token(place)
    if takes_secret(settings):
        secret = check_secret(settings.secret)
        return SignedCredential(
            place.name,
            lambda claims: jwt.encode(dict(claims), secret, algorithm="HS256"),
            bound=False,
            scope=place.kind,
        )
    raise SettingError(
        f"with public keys a {place.kind} needs a credential of its own",
        field=place.key_setting,
        hint=f"tocsin keys new --{place.kind} {place.name} makes a key; or set"
        f" {place.token_setting}",
    )


def _of_key(place: _Place) -> Credential:
    from tocsin.service.keys.jwk import SigningKey

    name, file = place.name, Path(place.key)
    if file.is_dir():  # of several on one machine
        file = file / f"{name}.private.json"
    key = SigningKey.read(file, place.key_setting)
    if key.subject not in (None, name):
        raise SettingError(
            f"the key {file} is of {place.kind} {key.subject!r}, and this one is {name!r}",
            field=place.key_setting,
        )
    return SignedCredential(name, key.sign, bound=True, scope=place.kind)


def _of_token(place: _Place) -> Credential:
    credential = GivenCredential(place.token)
    if not credential.token():
        raise SettingError(
            f"there is no token in {place.token}",
            field=place.token_setting,
            hint="the setting is a token, or a file that holds one",
        )
    return credential


def _is_file(text: str) -> bool:
    """A token has dots and no slash, and begins as its header's JSON does in base64."""
    return not text.strip().startswith("eyJ")
