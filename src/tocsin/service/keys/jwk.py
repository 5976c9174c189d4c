"""One key: a JSON Web Key read, made, kept in a file, and signed with.

The algorithm belongs to the key: Ed25519 keys verify EdDSA, RSA keys verify RS256, and nothing else
is a key. What a token says of its algorithm decides nothing. Needs `cryptography`, which the extra
`server` brings; must not know where keys come from.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm
from msgspec import Struct

from tocsin import durable
from tocsin.errors import InvalidInput, SettingError

KEY_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z")
KEY_ID_RULE = "up to 100 letters, digits, and . _ -, the first no point"
LEAST_RSA_BITS = 2048
RSA_BITS = 3072
ALGORITHMS = {"OKP": "EdDSA", "RSA": "RS256"}
_MEMBERS = {"OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
"""What a key's thumbprint is made of (RFC 7638)."""
_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")


class NoKey(ValueError):
    """Why an entry is no key that verifies our tokens."""


class VerificationKey(Struct, frozen=True):
    """A public key, and what it may sign. `subject`, `scopes`: None stands for any."""

    id: str
    algorithm: str
    public: Ed25519PublicKey | RSAPublicKey
    subject: str | None = None
    scopes: frozenset[str] | None = None

    @property
    def restricted(self) -> bool:
        return self.subject is not None or self.scopes is not None


def verification_key(entry: Mapping[str, Any]) -> VerificationKey:
    """The key that an entry of a key set holds; raises NoKey with what is wrong."""
    if any(member in entry for member in _PRIVATE):
        raise NoKey("it is not a public key: a key set is there for everybody to read")
    algorithm = _algorithm(entry)
    kid = entry.get("kid")
    if not isinstance(kid, str) or not kid:
        raise NoKey("it has no kid")
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ["verify"]):
        raise NoKey("it is not for signatures")
    subject, scopes = entry.get("tocsin_subject"), entry.get("tocsin_scopes")
    if not (subject is None or (isinstance(subject, str) and subject)):
        raise NoKey("tocsin_subject must be the name that its tokens speak for")
    if not (scopes is None or _are_texts(scopes)):
        raise NoKey("tocsin_scopes must list the scopes that its tokens may have")
    allowed = None if scopes is None else frozenset(scopes)
    return VerificationKey(kid, algorithm, _public(entry, algorithm), subject, allowed)


def _algorithm(entry: Mapping[str, Any]) -> str:
    algorithm = ALGORITHMS.get(str(entry.get("kty")))
    if algorithm is None or (algorithm == "EdDSA" and entry.get("crv") != "Ed25519"):
        raise NoKey("only Ed25519 and RSA keys are taken")
    if entry.get("alg", algorithm) not in (algorithm, entry.get("crv")):
        raise NoKey(f"a key of this kind signs {algorithm}, and nothing else")
    return algorithm


def _public(entry: Mapping[str, Any], algorithm: str) -> Ed25519PublicKey | RSAPublicKey:
    try:
        key = (OKPAlgorithm if algorithm == "EdDSA" else RSAAlgorithm).from_jwk(dict(entry))
    except (jwt.InvalidKeyError, ValueError, TypeError, KeyError) as error:
        raise NoKey(f"it cannot be read: {error}") from None
    if not isinstance(key, Ed25519PublicKey | RSAPublicKey):
        raise NoKey("it is not a public key")
    if isinstance(key, RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise NoKey(f"an RSA key needs at least {LEAST_RSA_BITS} bits")
    return key


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


class SigningKey(Struct, frozen=True):
    """A private key, by its JSON Web Key."""

    id: str
    algorithm: str
    entry: dict[str, Any]
    private: Ed25519PrivateKey | RSAPrivateKey

    @classmethod
    def new(
        cls,
        algorithm: str,
        *,
        kid: str | None = None,
        subject: str | None = None,
        scopes: list[str] | None = None,
    ) -> SigningKey:
        if algorithm not in ALGORITHMS.values():
            raise InvalidInput(
                f"no algorithm is called {algorithm!r}", field="algorithm", hint="EdDSA or RS256"
            )
        if kid is not None and not KEY_ID.match(kid):
            raise InvalidInput(f"{kid!r} cannot name a key", field="kid", hint=KEY_ID_RULE)
        if algorithm == "EdDSA":
            entry = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True)
        else:
            entry = RSAAlgorithm.to_jwk(generate_private_key(65537, RSA_BITS), as_dict=True)
        entry = {name: value for name, value in entry.items() if name != "key_ops"}
        entry |= {"kid": thumbprint(entry) if kid is None else kid, "alg": algorithm, "use": "sig"}
        if subject is not None:
            entry["tocsin_subject"] = subject
        if scopes is not None:
            entry["tocsin_scopes"] = scopes
        return cls.of(entry)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> SigningKey:
        """Raises NoKey."""
        if "d" not in entry:
            raise NoKey("it is not a private key")
        public = verification_key(_public_part(entry))
        algorithm = OKPAlgorithm if public.algorithm == "EdDSA" else RSAAlgorithm
        try:
            key = algorithm.from_jwk(dict(entry))
        except (jwt.InvalidKeyError, ValueError, TypeError, KeyError) as error:
            raise NoKey(f"it cannot be read: {error}") from None
        if not isinstance(key, Ed25519PrivateKey | RSAPrivateKey):
            raise NoKey("it is not a private key")
        return cls(public.id, public.algorithm, dict(entry), key)

    @classmethod
    def read(cls, file: Path, setting: str) -> SigningKey:
        """The private key in a file of `tocsin keys new`."""
        try:
            entry = json.loads(file.read_bytes())
        except OSError as error:
            raise SettingError(
                f"cannot read the private key {file}: {error.strerror}", field=setting
            ) from None
        except (ValueError, RecursionError):
            raise _no_private_key(file, "it is not JSON", setting) from None
        try:
            return cls.of(entry if isinstance(entry, dict) else {})
        except NoKey as error:
            raise _no_private_key(file, str(error), setting) from None

    @property
    def public_entry(self) -> dict[str, Any]:
        """For key sets."""
        return _public_part(self.entry)

    @property
    def subject(self) -> str | None:
        """The one name that it may sign for; None: any."""
        return self.entry.get("tocsin_subject")

    def check(self, subject: str, scopes: list[str], roles: list[str]) -> None:
        """Raise if services would refuse such a token of this key."""
        allowed = self.entry.get("tocsin_scopes")
        if self.subject not in (None, subject):
            raise InvalidInput(
                f"the key {self.id!r} signs for {self.subject!r} alone", field="subject"
            )
        if allowed is not None and (roles or not set(scopes) <= set(allowed)):
            raise InvalidInput(
                f"the key {self.id!r} may give {', '.join(allowed)} alone", field="scope"
            )

    def sign(self, claims: Mapping[str, Any]) -> str:
        headers = {"kid": self.id}
        return jwt.encode(dict(claims), self.private, algorithm=self.algorithm, headers=headers)

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """The private key, for its owner's eyes only, and the public entry beside it."""
        private, public = directory / f"{name}.private.json", directory / f"{name}.public.json"
        try:
            durable.make_directory(directory)
            durable.create(private, _text(self.entry), mode=durable.OWNER)
            durable.write(public, _text(self.public_entry))
        except FileExistsError:
            raise InvalidInput(
                f"there is a key in {private} already", field="out", hint="give another --kid"
            ) from None
        except OSError as error:
            raise InvalidInput(
                f"cannot write a key to {directory}: {error.strerror}", field="out"
            ) from None
        return private, public


def _text(entry: Mapping[str, Any]) -> bytes:
    return (json.dumps(entry, indent=1) + "\n").encode()


def _no_private_key(file: Path, reason: str, setting: str) -> SettingError:
    return SettingError(
        f"{file} is no private key: {reason}", field=setting, hint="make one with: tocsin keys new"
    )


def _public_part(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in _PRIVATE}


def thumbprint(entry: Mapping[str, Any]) -> str:
    """The same key has the same one everywhere (RFC 7638)."""
    members = {name: entry[name] for name in _MEMBERS[entry["kty"]]}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
