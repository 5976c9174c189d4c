"""Keys are followed where they are: a file's change counts at once, an address is asked rarely and
never waited for, and what cannot be read changes nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from service.keys.documents import Documents, documents
from service.keys.made import SECRET, claims, key_file, key_set
from tocsin.errors import SettingError, Unauthenticated, Unavailable
from tocsin.service.keys import verifier as verifiers
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.sources import KeyFile, keys_at
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.settings import Settings

OLD, NEW = SigningKey.new("EdDSA", kid="old"), SigningKey.new("RS256", kid="new")

SMALL = RSAAlgorithm.to_jwk(generate_private_key(65537, 1024).public_key(), as_dict=True)
SMALL["kid"] = "small"


@pytest.fixture
def web() -> Iterator[Documents]:
    with documents() as served:
        yield served


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_taken(verifier: TokenVerifier, key: SigningKey) -> bool:
    try:
        verifier.verify(key.sign(claims()))
    except (Unauthenticated, Unavailable):
        return False
    return True


def test_a_key_that_is_added_to_the_file_is_good_at_once(tmp_path: Path) -> None:
    file = key_file(tmp_path, OLD)
    verifier = TokenVerifier(keys=KeyFile(file))
    assert not is_taken(verifier, NEW)
    key_file(tmp_path, OLD, NEW)
    assert is_taken(verifier, NEW)
    assert is_taken(verifier, OLD)


async def test_a_key_that_is_removed_from_the_file_is_refused_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifiers, "LOOK_EVERY_S", 0.01)
    key_file(tmp_path, OLD, NEW)
    verifier = TokenVerifier(keys=KeyFile(tmp_path / "jwks.json"))
    identity, before = verifier.verify(OLD.sign(claims())), verifier.version
    assert verifier.refusal(identity) is None
    token = OLD.sign(claims())
    verifier.verify(token)
    key_file(tmp_path, NEW)
    await until(lambda: not is_taken(verifier, OLD))
    with pytest.raises(Unauthenticated):  # although it was good, and remembered
        verifier.verify(token)
    assert verifier.version != before
    assert verifier.refusal(identity) == "the token's key is no longer taken"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"keys": [{"kty": "oct", "k": "AA"}]}', None])
def test_a_file_that_is_spoilt_or_gone_changes_nothing(tmp_path: Path, body: bytes | None) -> None:
    file = key_file(tmp_path, OLD)
    verifier = TokenVerifier(keys=KeyFile(file))
    file.unlink()
    if body is not None:
        file.write_bytes(body)
    assert not is_taken(verifier, NEW)  # it looks
    assert is_taken(verifier, OLD)
    key_file(tmp_path, NEW)
    assert is_taken(verifier, NEW)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "there are no keys"),
        (b"nonsense", "not a key set"),
        (b'{"keys": 3}', "not a key set"),
        (key_set(OLD, OLD), "two keys of it have the kid 'old'"),
        (key_set(OLD.entry), "key 1 of it is of no use: it is not a public key"),
        (key_set({"kty": "oct", "kid": "a", "k": "c2VjcmV0"}), "not a public key"),
        (key_set({"kty": "EC", "kid": "a", "crv": "P-256"}), "only Ed25519 and RSA"),
        (key_set(OLD.public_entry | {"alg": "HS256"}), "signs EdDSA, and nothing else"),
        (key_set(NEW.public_entry | {"alg": "RS512"}), "signs RS256, and nothing else"),
        (key_set(SMALL), "RSA key needs at least 2048 bits"),
        (key_set(OLD.public_entry | {"x": "short"}), "cannot be read"),
        (key_set(OLD.public_entry | {"kid": None}), "it has no kid"),
        (key_set(OLD.public_entry | {"use": "enc"}), "not for signatures"),
        (key_set(OLD.public_entry | {"tocsin_scopes": "admin"}), "tocsin_scopes must list"),
        (key_set(OLD.public_entry | {"tocsin_subject": ["a"]}), "tocsin_subject must be"),
    ],
)
def test_a_service_does_not_start_with_keys_that_are_wrong(
    tmp_path: Path, body: bytes | None, reason: str
) -> None:
    file = tmp_path / "jwks.json"
    if body is not None:
        file.write_bytes(body)
    with pytest.raises(SettingError, match=reason) as refusal:
        TokenVerifier.of(Settings(data=tmp_path, token_keys=str(file)))
    assert refusal.value.field == "token_keys"


async def test_a_flood_of_unknown_keys_is_one_fetch(web: Documents) -> None:
    web.by_path["/jwks"] = key_set(OLD)
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks", retry_s=3600))
    assert (await verifier.identify(OLD.sign(claims()))).subject == "ann"
    unknown = [NEW.sign(claims(f"eve{number}")) for number in range(20)]

    async def refused(token: str) -> None:
        with pytest.raises((Unauthenticated, Unavailable)):
            await verifier.identify(token)

    await asyncio.gather(*(refused(token) for token in unknown * 20))
    assert web.asked == ["/jwks"]


async def test_an_unknown_key_is_looked_up_once_in_a_while(web: Documents) -> None:
    web.by_path["/jwks"] = key_set(OLD)
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks", retry_s=0.05))
    await verifier.identify(OLD.sign(claims()))
    web.by_path["/jwks"] = key_set(OLD, NEW)
    await asyncio.sleep(0.06)  # else nobody would ask
    assert (await verifier.identify(NEW.sign(claims()))).key_id == "new"
    assert is_taken(verifier, OLD)


async def test_an_upgrade_waits_for_no_fetch_and_says_so(web: Documents) -> None:
    web.by_path["/jwks"] = key_set(OLD)
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks"))
    with pytest.raises(Unavailable, match="being fetched"):
        verifier.verify(OLD.sign(claims()))
    await until(lambda: is_taken(verifier, OLD))


async def test_keys_that_are_known_are_good_while_their_place_is_away(web: Documents) -> None:
    web.by_path["/jwks"] = key_set(OLD)
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks", retry_s=0.01))
    await verifier.identify(OLD.sign(claims()))
    web.away = True
    asked = len(web.asked)
    await until(lambda: not is_taken(verifier, NEW) and len(web.asked) > asked + 2)
    assert is_taken(verifier, OLD)


async def test_keys_that_were_never_there_make_the_service_unavailable_and_not_the_token_bad(
    web: Documents,
) -> None:
    web.away = True
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks", retry_s=0.01))
    with pytest.raises(Unavailable):
        await verifier.identify(OLD.sign(claims()))
    web.by_path["/jwks"], web.away = key_set(OLD), False
    await until(lambda: is_taken(verifier, OLD))


@pytest.mark.parametrize(
    "body", [b"no keys", b'{"keys": []}', b'{"keys": ' + b" " * (1 << 20) + b"[]}"], ids=len
)
async def test_what_is_no_key_set_is_not_taken_for_one(web: Documents, body: bytes) -> None:
    web.by_path["/jwks"] = key_set(OLD)
    verifier = TokenVerifier(keys=keys_at(web.url + "/jwks", retry_s=0.01))
    await verifier.identify(OLD.sign(claims()))
    web.by_path["/jwks"] = body
    asked = len(web.asked)
    await until(lambda: not is_taken(verifier, NEW) and len(web.asked) > asked + 1)
    assert is_taken(verifier, OLD)


async def test_a_key_that_an_address_no_longer_lists_is_refused(web: Documents) -> None:
    web.by_path["/jwks"] = key_set(OLD, NEW)
    source = keys_at(web.url + "/jwks", retry_s=0.01)
    verifier = TokenVerifier(keys=source)
    await verifier.identify(OLD.sign(claims()))
    web.by_path["/jwks"] = key_set(NEW)
    source.look_up()
    await until(lambda: not is_taken(verifier, OLD))


def test_what_the_secret_signed_is_kept_for_a_migration_only(tmp_path: Path) -> None:
    from tocsin.service.tokens import mint

    file = key_file(tmp_path, OLD)
    token = mint(SECRET, "ann", ["subscribe"], expires_s=60, now=time.time())
    for kept in (False, True):
        settings = Settings(data=tmp_path, secret=SECRET, token_keys=str(file), secret_tokens=kept)
        verifier = TokenVerifier.of(settings)
        assert is_taken(verifier, OLD)
        if kept:
            assert verifier.verify(token).key_id == ""
        else:
            with pytest.raises(Unauthenticated, match="this system has public keys"):
                verifier.verify(token)


def test_a_look_at_a_file_that_is_the_same_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = KeyFile(key_file(tmp_path, OLD))

    def read(_: Path) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(Path, "read_bytes", read)
    for _ in range(100):
        assert source.find("unknown") is None
    os.utime(tmp_path / "jwks.json", (1, 1))
    with pytest.raises(AssertionError):
        source.find("unknown")
