"""Tokens carry who and what; anything doubtful about them is refused, with the reason."""

import time

import jwt
import pytest

from tocsin.errors import Forbidden, InvalidInput, SettingError, Unauthenticated
from tocsin.service.tokens import bearer, mint, sign_notice, verify, verify_notice

SECRET = "a secret that is long enough to sign with"


def test_token_says_who_and_what() -> None:
    token = mint(SECRET, "ann", ["subscribe", "publish"], expires_s=60, now=time.time())
    identity = verify(SECRET, token)
    assert identity.subject == "ann"
    assert identity.scopes == {"subscribe", "publish"}
    identity.require("admin", "publish")
    identity.require()
    with pytest.raises(Forbidden, match="admin"):
        identity.require("admin")


def test_token_tells_roles_and_every_other_claim() -> None:
    token = mint(
        SECRET, "ann", ["subscribe"], expires_s=60, now=time.time(), roles=["ward_3", "nurses"]
    )
    identity = verify(SECRET, token)
    assert identity.roles == {"nurses", "ward_3"}
    assert identity.claims["sub"] == "ann"
    assert not verify(
        SECRET, mint(SECRET, "bob", ["subscribe"], expires_s=60, now=time.time())
    ).roles


@pytest.mark.parametrize(
    ("claim", "roles"),
    [("nurses ward_3", {"nurses", "ward_3"}), (["nurses", 3], {"nurses"}), (7, set()), ({}, set())],
)
def test_roles_are_read_from_words_or_an_array_and_from_nothing_else(
    claim: object, roles: set[str]
) -> None:
    claims = {"sub": "ann", "exp": int(time.time()) + 60, "scope": "subscribe", "roles": claim}
    assert verify(SECRET, jwt.encode(claims, SECRET, algorithm="HS256")).roles == roles


@pytest.mark.parametrize("token", [None, "", "nonsense", "a.b.c"])
def test_missing_or_broken_token_is_refused(token: str | None) -> None:
    with pytest.raises(Unauthenticated):
        verify(SECRET, token)


def test_expired_token_is_refused_as_expired() -> None:
    with pytest.raises(Unauthenticated, match="expired"):
        verify(SECRET, mint(SECRET, "ann", ["publish"], expires_s=60, now=1_000_000_000))


def test_token_that_was_good_is_refused_once_it_has_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = mint(SECRET, "ann", ["publish"], expires_s=60, now=time.time())
    verify(SECRET, token)
    later = time.time() + 121
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Unauthenticated, match="expired"):
        verify(SECRET, token)


def test_token_of_another_secret_or_algorithm_is_refused() -> None:
    with pytest.raises(Unauthenticated):
        verify(SECRET, mint(SECRET + "!", "ann", ["publish"], expires_s=60, now=time.time()))
    unsigned = jwt.encode(
        {"sub": "ann", "exp": int(time.time()) + 60, "scope": "admin"}, "", algorithm="none"
    )
    with pytest.raises(Unauthenticated):
        verify(SECRET, unsigned)


@pytest.mark.parametrize(
    ("subject", "scopes", "expires_s"),
    [("", ["publish"], 60), ("ann", [], 60), ("ann", ["root"], 60), ("ann", ["publish"], 0)],
)
def test_token_that_makes_no_sense_is_not_made(
    subject: str, scopes: list[str], expires_s: float
) -> None:
    with pytest.raises(InvalidInput):
        mint(SECRET, subject, scopes, expires_s=expires_s, now=time.time())


def test_short_secret_is_refused() -> None:
    with pytest.raises(SettingError, match="secret"):
        mint("short", "ann", ["publish"], expires_s=60, now=time.time())


def test_bearer_is_read_from_the_header() -> None:
    assert bearer("Bearer abc") == "abc"
    assert bearer("bearer  abc ") == "abc"
    assert bearer("Basic abc") is None
    assert bearer(None) is None


def test_notice_signature_covers_body_and_time() -> None:
    header = sign_notice(SECRET, b"body", 1000.0)
    verify_notice(SECRET, b"body", header, 1010.0)
    for body, given, now in [
        (b"other", header, 1010.0),
        (b"body", header, 9000.0),
        (b"body", header.replace("t=1000", "t=1001"), 1010.0),
        (b"body", None, 1010.0),
        (b"body", "t=,v1=", 1010.0),
    ]:
        with pytest.raises(Unauthenticated):
            verify_notice(SECRET, body, given, now)
