"""Tokens that somebody made up, a table of attacks: each is refused, by a service with public keys
as by one with a secret, and none is a fault of the service."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.keys.made import SECRET, claims, encoded, key_file, signed_text
from tocsin.errors import Unauthenticated
from tocsin.service.keys.claims import MOST_CHARACTERS
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.sources import KeyFile
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import mint

ED = SigningKey.new("EdDSA", kid="ed")
RSA = SigningKey.new("RS256", kid="rsa")
BROKER = SigningKey.new("EdDSA", kid="edge", subject="edge", scopes=["broker"])
STRANGER = SigningKey.new("EdDSA", kid="ed")  # under a name that is known


def hs256(key: bytes, header: dict[str, object]) -> str:
    head = f"{encoded({'alg': 'HS256', 'typ': 'JWT'} | header)}.{encoded(claims('eve', 'admin'))}"
    return f"{head}.{_b64(hmac.new(key, head.encode(), hashlib.sha256).digest())}"


def _b64(body: bytes) -> str:
    import base64

    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def pem(key: SigningKey) -> bytes:
    public = key.private.public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def header(alg: str = "EdDSA", kid: object = "ed", **more: object) -> str:
    return json.dumps({"alg": alg, "kid": kid, **more})


def unsigned(alg: str) -> str:
    return f"{encoded({'alg': alg, 'kid': 'ed'})}.{encoded(claims('eve', 'admin'))}."


GOOD = json.dumps(claims("eve", "admin"))
ATTACKS: dict[str, Callable[[], str]] = {
    "no algorithm": lambda: unsigned("none"),
    "no algorithm, in capitals": lambda: unsigned("NONE"),
    "no signature": lambda: unsigned("EdDSA"),
    "HS256 with the text of an RSA key": lambda: hs256(pem(RSA), {"kid": "rsa"}),
    "HS256 with the text of an Ed25519 key": lambda: hs256(pem(ED), {"kid": "ed"}),
    "HS256 with the entry of a key": lambda: hs256(
        json.dumps(RSA.public_entry).encode(), {"kid": "rsa"}
    ),
    "HS256 with nothing": lambda: hs256(b"", {"kid": "ed"}),
    "HS256 with the secret": lambda: mint(SECRET, "eve", ["admin"], expires_s=60, now=time.time()),
    "HS512": lambda: jwt.encode(claims("eve", "admin"), SECRET * 2, "HS512", {"kid": "ed"}),
    "another algorithm than the key's": lambda: signed_text(ED, header("RS256"), GOOD),
    "an algorithm that is no text": lambda: signed_text(
        ED, '{"alg": ["EdDSA"], "kid": "ed"}', GOOD
    ),
    "a key of that name, of a stranger": lambda: STRANGER.sign(claims("eve", "admin")),
    "no kid": lambda: jwt.encode(claims("eve", "admin"), ED.private, "EdDSA"),
    "an unknown kid": lambda: signed_text(ED, header(kid="other"), GOOD),
    "a kid that is a path": lambda: signed_text(ED, header(kid="../../../etc/passwd"), GOOD),
    "a kid that is an address": lambda: signed_text(ED, header(kid="http://evil/jwks"), GOOD),
    "a kid with a zero in it": lambda: signed_text(ED, header(kid="ed\0"), GOOD),
    "a kid that is a number": lambda: signed_text(ED, header(kid=1), GOOD),
    "a kid that is a list": lambda: signed_text(ED, header(kid=["ed"]), GOOD),
    "a key that it brings along": lambda: signed_text(
        STRANGER, header(kid="new", jwk=STRANGER.public_entry), GOOD
    ),
    "an address where its key is": lambda: signed_text(
        STRANGER, header(kid="new", jku="http://127.0.0.1:9/"), GOOD
    ),
    "an extension that must be known": lambda: signed_text(ED, header(crit=["b64"]), GOOD),
    "a body that is not encoded": lambda: signed_text(ED, header(b64=False), GOOD),
    "a changed body": lambda: _changed(ED.sign(claims("ann"))),
    "no end": lambda: ED.sign(claims(exp=None)),
    "expired": lambda: ED.sign(claims(exp=int(time.time()) - 61)),
    "not valid yet": lambda: ED.sign(claims(nbf=int(time.time()) + 65)),
    "made in the future": lambda: ED.sign(claims(iat=int(time.time()) + 65)),
    "an end that is no number": lambda: ED.sign(claims(exp="tomorrow")),
    "an end that is true": lambda: ED.sign(claims(exp=True)),
    "an endless end": lambda: signed_text(ED, header(), '{"sub": "eve", "exp": 1e999}'),
    "an end beyond all": lambda: signed_text(ED, header(), '{"sub": "eve", "exp": Infinity}'),
    "an end that is no time": lambda: signed_text(ED, header(), '{"sub": "eve", "exp": NaN}'),
    "nobody": lambda: ED.sign(claims(sub=None)),
    "an empty subject": lambda: ED.sign(claims(sub="") | {"sub": ""}),
    "a subject that is a number": lambda: ED.sign(claims() | {"sub": 7}),
    "for another audience": lambda: ED.sign(claims(aud="somebody else")),
    "a claim twice": lambda: signed_text(
        ED, header(), '{"sub": "ann", "exp": 99999999999, "sub": "eve", "scope": "admin"}'
    ),
    "a header twice": lambda: signed_text(ED, '{"alg": "none", "kid": "ed", "alg": "EdDSA"}', GOOD),
    "claims that are a list": lambda: signed_text(ED, header(), "[]"),
    "claims that are no JSON": lambda: signed_text(ED, header(), "{"),
    "a header that is deep": lambda: signed_text(ED, "[" * 3000 + "]" * 3000, "{}"),
    "claims that are deep": lambda: signed_text(ED, header(), '{"a":' * 1000 + "1" + "}" * 1000),
    "too large": lambda: ED.sign(claims(more="x" * MOST_CHARACTERS)),
    "five parts": lambda: ED.sign(claims()) + ".a.b",
    "letters beyond": lambda: "é" * 20 + ".a.b",
    "nothing": lambda: "",
    "dots": lambda: "..",
    "a broker's key for another broker": lambda: BROKER.sign(claims("other", "broker")),
    "a broker's key for an admin": lambda: BROKER.sign(claims("edge", "admin")),
    "a broker's key for both": lambda: BROKER.sign(claims("edge", "broker", "admin")),
    "a broker's key with a role": lambda: BROKER.sign(claims("edge", "broker", roles=["chief"])),
}


def _changed(token: str) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{encoded(claims('eve', 'admin'))}.{signature}"


@pytest.fixture
def public(tmp_path: Path) -> TokenVerifier:
    return TokenVerifier(keys=KeyFile(key_file(tmp_path, ED, RSA, BROKER)))


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_service_with_public_keys_refuses(attack: str, public: TokenVerifier) -> None:
    token = ATTACKS[attack]()
    for _ in range(2):  # and does not remember it as good
        with pytest.raises(Unauthenticated):
            public.verify(token)
        with pytest.raises(Unauthenticated):
            await public.identify(token)


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "HS256 with the secret"])
def test_a_service_with_a_secret_refuses(attack: str) -> None:
    with pytest.raises(Unauthenticated):
        TokenVerifier(secret=SECRET).verify(ATTACKS[attack]())


def test_what_is_not_attacked_is_let_in(public: TokenVerifier) -> None:
    for key in (ED, RSA):
        identity = public.verify(key.sign(claims("ann", "publish", roles=["chief"])))
        assert (identity.subject, identity.key_id) == ("ann", key.id)
        assert identity.scopes == {"publish"}
        assert identity.roles == {"chief"}
    assert public.verify(BROKER.sign(claims("edge", "broker"))).broker == "edge"
    assert public.verify(ED.sign(claims("edge", "broker", "admin"))).broker is None


def test_the_reason_names_no_more_of_a_token_than_its_key(public: TokenVerifier) -> None:
    token = signed_text(ED, header(kid="k" * 3000), GOOD)
    with pytest.raises(Unauthenticated) as refusal:
        public.verify(token)
    assert len(str(refusal.value)) < 200
