"""Clocks of two machines may be a minute apart, and a broker's more than that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from service.keys.made import SECRET, claims, key_file
from tocsin.errors import Unauthenticated
from tocsin.service.keys.credentials import FRESH_S, TOKEN_S, SignedCredential, credential_of
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.sources import KeyFile
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import mint
from tocsin.settings import Settings

KEY = SigningKey.new("EdDSA", kid="edge", subject="edge", scopes=["broker"])
ANY = SigningKey.new("EdDSA", kid="any")


@pytest.fixture(params=["secret", "keys"])
def verifier(request: pytest.FixtureRequest, tmp_path: Path) -> TokenVerifier:
    if request.param == "secret":
        return TokenVerifier(secret=SECRET)
    return TokenVerifier(keys=KeyFile(key_file(tmp_path, ANY, KEY)))


def token_of(verifier: TokenVerifier, expires_s: float, now: float) -> str:
    if verifier._keys is None:
        return mint(SECRET, "ann", ["publish"], expires_s=expires_s, now=now)
    return ANY.sign(claims(iat=int(now), nbf=int(now), exp=int(now + expires_s)))


@pytest.mark.parametrize("apart_s", [-58, -2, 0, 1, 58])
def test_a_clock_may_be_a_minute_from_ours(verifier: TokenVerifier, apart_s: float) -> None:
    identity = verifier.verify(token_of(verifier, 1, time.time() + apart_s))
    assert identity.expires_at > time.time()


@pytest.mark.parametrize("apart_s", [-90, 90])
def test_a_clock_may_not_be_farther_from_ours(verifier: TokenVerifier, apart_s: float) -> None:
    with pytest.raises(Unauthenticated):
        verifier.verify(token_of(verifier, 1, time.time() + apart_s))


def test_the_leeway_is_a_setting(tmp_path: Path) -> None:
    verifier = TokenVerifier.of(Settings(data=tmp_path, secret=SECRET, token_leeway_s=5.0))
    verifier.verify(token_of(verifier, 1, time.time() - 3))
    with pytest.raises(Unauthenticated, match="expired"):
        verifier.verify(token_of(verifier, 1, time.time() - 10))


@pytest.mark.parametrize("apart_s", [-1800, -3, 3, 86400])
def test_a_brokers_own_tokens_are_good_whatever_its_clock_says(
    verifier: TokenVerifier, apart_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(broker_name="edge", secret=SECRET)
    if verifier._keys is not None:
        KEY.write(tmp_path, "edge")
        settings = Settings(
            broker_name="edge", token_keys="keys", broker_key=str(tmp_path / "edge.private.json")
        )
    true_time = time.time
    with monkeypatch.context() as its:
        its.setattr(time, "time", lambda: true_time() + apart_s)
        token = credential_of(settings).token()
    assert verifier.verify(token).subject == "edge"


def test_a_broker_renews_by_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = 100.0
    signed: list[float] = []

    def sign(claims: object) -> str:
        signed.append(steady)
        return f"token {len(signed)}"

    credential = SignedCredential("edge", sign, bound=True, clock=lambda: steady)
    assert credential.token() == credential.token() == "token 1"
    for wall in (0.0, 4e9):  # the wall clock is set back, and far ahead
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        assert credential.token() == "token 1"
    steady += FRESH_S - 1
    assert credential.token() == "token 1"
    steady += 1
    assert credential.token() == "token 2"
    assert FRESH_S <= TOKEN_S / 2
