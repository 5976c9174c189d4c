"""Whose token is it? `TokenVerifier` answers for every call, upgrade and link of a service.

Without public keys the one secret signs everything. With them, a key is chosen by the token's kid
(a provider's by its issuer first), the algorithm is the key's, and what only the secret vouches for
is refused, unless settings keep it for a migration.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
from msgspec import Struct

from tocsin.errors import SettingError, Unauthenticated, Unavailable
from tocsin.service.keys.claims import (
    MOST_CHARACTERS,
    OWN_CLAIMS,
    ClaimMap,
    NoToken,
    TokenParts,
    parts_of,
)
from tocsin.service.keys.revocations import FILE, Revocations
from tocsin.service.secret import takes_secret
from tocsin.service.tokens import LEEWAY_S, Identity, check_secret, expired, no_token, verify
from tocsin.settings import Settings

if TYPE_CHECKING:
    from tocsin.service.keys.jwk import VerificationKey
    from tocsin.service.keys.sources import KeySource

REMEMBERED = 4096  # the same tokens come with every call; a failure is not remembered
LOOK_EVERY_S = 0.5
LOOK_UP_S = 10.0


class Provider(Struct, frozen=True):
    """An OpenID Connect provider: its tokens name it as issuer, and us as audience."""

    issuer: str
    audience: str
    keys: KeySource
    claims: ClaimMap = OWN_CLAIMS


class UnknownKey(Exception):
    """No key of that kid. A later look may find one."""

    def __init__(self, kid: str, source: KeySource) -> None:
        super().__init__(kid)
        self.kid = kid
        self.source = source

    def refusal(self, looking: bool = False) -> Unauthenticated | Unavailable:
        if looking or not self.source.ready:
            return Unavailable("the keys of tokens are being fetched", hint="try again in a moment")
        shown = self.kid if len(self.kid) <= 100 else self.kid[:100] + "…"
        return Unauthenticated(f"the token is not valid: no key is called {shown!r}")


class TokenVerifier:
    """For the event loop's thread."""

    def __init__(
        self,
        *,
        secret: str = "",
        keys: KeySource | None = None,
        provider: Provider | None = None,
        audience: str = "",
        revocations: Revocations | None = None,
        leeway_s: float = LEEWAY_S,
    ) -> None:
        """`secret`: empty: what it signed is not taken. `audience`: tokens that name one name this
        one; what a provider signed must name one."""
        self.revocations = revocations or Revocations(None)
        self._secret = check_secret(secret) if secret or not (keys or provider) else ""
        self._keys = keys
        self._provider = provider
        provided = None if provider is None else provider.keys
        self._sources = tuple(source for source in (keys, provided) if source is not None)
        self._audience = audience
        self._leeway_s = leeway_s
        self._known: dict[tuple[str, str], Identity] = {}
        self._looked_at = -LOOK_EVERY_S
        self._version = self.version
        self.poll(time.monotonic())

    @classmethod
    def of(cls, settings: Settings) -> TokenVerifier:
        """As the settings say. What is wrong with them is told now; an address that does not answer
        yet is asked again."""
        file = settings.revocations or str(settings.data / FILE)
        keys: KeySource | None = None
        provider: Provider | None = None
        if settings.token_keys or settings.token_issuer:
            # Needs a library that those who have the secret alone need not install.
            from tocsin.service.keys import sources

            retry_s = settings.key_retry_s
            if settings.token_issuer:
                provider = Provider(
                    settings.token_issuer,
                    _audience(settings),
                    sources.keys_of_provider(settings.token_issuer, retry_s=retry_s),
                    ClaimMap.read(settings.token_claims, settings.token_scopes),
                )
            if settings.token_keys.startswith(("http://", "https://")):
                keys = sources.keys_at(settings.token_keys, retry_s=retry_s)
            elif settings.token_keys:
                keys = sources.KeyFile(Path(settings.token_keys))
        return cls(
            secret=settings.secret if takes_secret(settings) else "",
            keys=keys,
            provider=provider,
            audience=settings.token_audience,
            revocations=Revocations(Path(file)),
            leeway_s=settings.token_leeway_s,
        )

    @property
    def version(self) -> tuple[int, ...]:
        """It is another when a live connection may have to end: ask `refusal`."""
        return self.revocations.version, *(source.version for source in self._sources)

    def verify(self, token: str | None, audience: str = "") -> Identity:
        """Who the token speaks for; raises Unauthenticated with what is wrong with it. Waits for
        nothing: while new keys are fetched, one that is unknown is Unavailable. `audience`: by
        which the caller goes, besides the system's own."""
        try:
            return self._verify(token, audience)
        except UnknownKey as unknown:
            raise unknown.refusal(unknown.source.look_up() is not None) from None

    async def identify(self, token: str | None, audience: str = "") -> Identity:
        """The same; a key that is not known yet is waited for if it may be found."""
        try:
            return self._verify(token, audience)
        except UnknownKey as unknown:
            looking = unknown.source.look_up()
            if looking is None:
                raise unknown.refusal() from None
        await _over(looking)
        try:
            return self._verify(token, audience)
        except UnknownKey as still:
            raise still.refusal() from None

    def refusal(self, identity: Identity) -> str | None:
        """Why a connection that was let in must end; None: it may stay."""
        self.poll(time.monotonic())
        reason = self.revocations.reason(identity.key_id, identity.subject, identity.claims)
        if reason is None and identity.key_id and self._find(identity.key_id) is None:
            return "the token's key is no longer taken"
        return reason

    def poll(self, now: float) -> None:
        """Look whether files are others. To be called regularly; each call of a service does."""
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        self.revocations.poll()
        for source in self._sources:
            source.poll()

    def _find(self, kid: str) -> VerificationKey | None:
        keys = (source.find(kid) for source in self._sources)
        return next((key for key in keys if key is not None), None)

    def _verify(self, token: str | None, audience: str) -> Identity:
        if not token:
            raise no_token()
        self.poll(time.monotonic())
        if self._version != self.version:
            self._version = self.version
            self._known.clear()
        identity = self._known.get((token, audience))
        if identity is None:
            identity = self._read(token, audience)
            self._remember((token, audience), identity)
        if identity.expires_at <= time.time():
            raise expired()
        return identity

    def _remember(self, known: tuple[str, str], identity: Identity) -> None:
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[known] = identity

    def _read(self, token: str, audience: str) -> Identity:
        if len(token) > MOST_CHARACTERS:
            raise _invalid(f"it has more than {MOST_CHARACTERS} characters")
        if not self._sources:
            identity = verify(self._secret, token, self._leeway_s)
        else:
            identity = self._read_signed(token, audience)
        reason = self.revocations.reason(identity.key_id, identity.subject, identity.claims)
        if reason is not None:
            raise Unauthenticated(reason)
        return identity

    def _read_signed(self, token: str, audience: str) -> Identity:
        try:
            parts = parts_of(token)
            if parts.header.get("alg") == "HS256":
                if not self._secret:
                    raise NoToken("tokens of a secret are not taken: this system has public keys")
                return verify(self._secret, token, self._leeway_s)
            provider = self._provider
            if provider is not None and parts.claims.get("iss") == provider.issuer:
                return self._of_provider(token, parts, provider)
            if self._keys is None:
                raise NoToken("it is of another issuer")
            return self._of_key(token, parts, self._keys, audience)
        except jwt.ExpiredSignatureError:
            raise expired() from None
        except (jwt.InvalidTokenError, NoToken, OverflowError, RecursionError) as error:
            raise _invalid(str(error)) from None

    def _of_provider(self, token: str, parts: TokenParts, provider: Provider) -> Identity:
        key = _key(parts, provider.keys)
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[key.algorithm],
            leeway=self._leeway_s,
            issuer=provider.issuer,
            audience=provider.audience,
            options={"require": ["exp", "iss", "aud"], "verify_sub": False},
        )
        return Identity(
            subject=provider.claims.subject_of(claims),
            scopes=provider.claims.scopes_of(claims),
            expires_at=float(claims["exp"]) + self._leeway_s,
            roles=provider.claims.roles_of(claims),
            claims=claims,
            key_id=key.id,
        )

    def _of_key(self, token: str, parts: TokenParts, keys: KeySource, audience: str) -> Identity:
        key = _key(parts, keys)
        audiences = [name for name in (self._audience, audience) if name]
        claims = jwt.decode(
            token,
            key.public,
            algorithms=[key.algorithm],
            leeway=self._leeway_s,
            audience=audiences if "aud" in parts.claims else None,
            options={"require": ["exp", "sub"]},
        )
        identity = Identity(
            subject=OWN_CLAIMS.subject_of(claims),
            scopes=OWN_CLAIMS.scopes_of(claims),
            expires_at=float(claims["exp"]) + self._leeway_s,
            roles=OWN_CLAIMS.roles_of(claims),
            claims=claims,
            key_id=key.id,
        )
        _check_allowed(key, identity)
        return identity


def _audience(settings: Settings) -> str:
    if not settings.token_audience:
        raise SettingError(
            "setting token_issuer needs token_audience: a provider signs tokens for others too",
            field="token_audience",
            hint="name what its tokens for this system say in their claim aud",
        )
    return settings.token_audience


def _key(parts: TokenParts, keys: KeySource) -> VerificationKey:
    kid = parts.header.get("kid")
    if not isinstance(kid, str):
        raise NoToken("it does not say which key signed it (kid)")
    key = keys.find(kid)
    if key is None:
        raise UnknownKey(kid, keys)
    if parts.header.get("alg") != key.algorithm:
        raise NoToken(f"the key {kid!r} signs {key.algorithm}, and nothing else")
    return key


def _check_allowed(key: VerificationKey, identity: Identity) -> None:
    """A key that may sign little vouches for no more than that."""
    if key.subject is not None and identity.subject != key.subject:
        raise NoToken(f"the key {key.id!r} signs for {key.subject!r} alone")
    if key.scopes is not None and not identity.scopes <= key.scopes:
        raise NoToken(f"the key {key.id!r} may give {', '.join(sorted(key.scopes))} alone")
    if key.scopes is not None and identity.roles:
        raise NoToken(f"the key {key.id!r} may give no roles")


def _invalid(reason: str) -> Unauthenticated:
    return Unauthenticated(f"the token is not valid: {reason}")


async def _over(looking: Future[None]) -> None:
    """Several wait for the same, and one that is cancelled must not end it for the others."""
    await asyncio.wait({asyncio.wrap_future(looking)}, timeout=LOOK_UP_S)
