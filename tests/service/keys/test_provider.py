"""Tokens of an OpenID Connect provider that stands on loopback: its discovery and its keys are
fetched, its issuer and this system's audience are asked for, its claims say who may what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.keys.documents import Documents, documents
from service.keys.made import claims, key_file, key_set
from tocsin.errors import SettingError, TocsinError, Unauthenticated, Unavailable
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import claims_for
from tocsin.service.web import Call, Route, application
from tocsin.settings import Settings

ITS = SigningKey.new("RS256", kid="2026-11")
OURS = SigningKey.new("EdDSA", kid="2026-11")  # the same kid as theirs
EDGE = SigningKey.new("EdDSA", kid="edge", subject="edge", scopes=["broker"])
OTHER_KINDS = [
    {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": "AA", "y": "AA"},
    {"kty": "RSA", "kid": "enc", "use": "enc", "n": "AA", "e": "AQAB"},
    {"kty": "new", "kid": "future"},
]


@pytest.fixture
def provider() -> Iterator[Documents]:
    with documents() as served:
        served.provide(served.url, key_set(*OTHER_KINDS, ITS))
        yield served


def settings(provider: Documents, tmp_path: Path, **more: Any) -> Settings:
    given: dict[str, Any] = {
        "data": tmp_path,
        "token_issuer": provider.url,
        "token_audience": "tocsin",
        "token_claims": "subject=preferred_username roles=realm_access.roles scopes=scope",
        "token_scopes": "subscribe=* admin=ops,root publish=sensors",
        "key_retry_s": 0.05,
    }
    return Settings(**(given | more))


def said(provider: Documents, **more: Any) -> dict[str, Any]:
    """As a provider's access token says it."""
    now = int(time.time())
    token = {
        "iss": provider.url,
        "aud": ["account", "tocsin"],
        "sub": "f3b0-42",
        "preferred_username": "ann",
        "scope": "openid profile",
        "realm_access": {"roles": ["ops", "nurses"]},
        "iat": now,
        "exp": now + 300,
        "azp": "city-app",
    } | more
    return {name: value for name, value in token.items() if value is not None}


async def greet(call: Call) -> Any:
    who = call.identity
    return {"who": who.subject, "scopes": sorted(who.scopes), "roles": sorted(who.roles)}


@pytest.fixture
async def service(provider: Documents, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    verifier = TokenVerifier.of(settings(provider, tmp_path))
    routes = [Route("GET", "/v1/greet", greet, ("subscribe",), "greet")]
    app = application("test", routes, verifier=verifier, limit_bytes=64)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield http


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_providers_token_says_who_somebody_is_and_what_they_may(
    service: httpx.AsyncClient, provider: Documents
) -> None:
    answer = await service.get("/v1/greet", headers=bearer(ITS.sign(said(provider))))
    assert answer.json() == {
        "who": "ann",
        "scopes": ["admin", "subscribe"],
        "roles": ["nurses", "ops"],
    }
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    "more",
    [
        {"iss": "https://login.evil.example"},
        {"iss": None},
        {"aud": "account"},
        {"aud": []},
        {"aud": None},
        {"exp": None},
        {"exp": 1_700_000_000},
        {"nbf": 99_999_999_999},
        {"preferred_username": None},
        {"preferred_username": ["ann"]},
        {"preferred_username": ""},
    ],
    ids=str,
)
async def test_a_providers_token_for_others_of_others_or_for_nobody_is_refused(
    service: httpx.AsyncClient, provider: Documents, more: dict[str, Any]
) -> None:
    answer = await service.get("/v1/greet", headers=bearer(ITS.sign(said(provider, **more))))
    assert answer.status_code == 401, answer.text


async def test_a_provider_that_exchanges_its_keys_is_followed(
    service: httpx.AsyncClient, provider: Documents
) -> None:
    await service.get("/v1/greet", headers=bearer(ITS.sign(said(provider))))
    new = SigningKey.new("RS256", kid="2026-12")
    provider.by_path["/keys"] = key_set(ITS, new)
    await asyncio.sleep(0.06)  # it was asked just now
    for key in (new, ITS):
        answer = await service.get("/v1/greet", headers=bearer(key.sign(said(provider))))
        assert answer.status_code == 200, answer.text


async def test_ones_own_keys_go_beside_a_providers_and_neither_speaks_for_the_other(
    provider: Documents, tmp_path: Path
) -> None:
    own = str(key_file(tmp_path, OURS, EDGE))
    verifier = TokenVerifier.of(settings(provider, tmp_path, token_keys=own))
    assert (await verifier.identify(ITS.sign(said(provider)))).subject == "ann"
    assert (await verifier.identify(OURS.sign(claims("bea", "publish")))).scopes == {"publish"}
    assert (await verifier.identify(EDGE.sign(claims("edge", "broker")))).broker == "edge"
    for token in (
        OURS.sign(said(provider)),  # our key in the provider's name
        ITS.sign(claims("bea", "admin")),  # the provider's key in ours
        EDGE.sign(said(provider)),
    ):
        with pytest.raises(Unauthenticated):
            await verifier.identify(token)


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://login.evil.example", "jwks_uri": "KEYS"},
        {"issuer": "ISSUER", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "ISSUER"},
        {"issuer": "ISSUER", "jwks_uri": 7},
        [],
    ],
)
async def test_a_discovery_that_makes_no_sense_gives_no_keys(
    provider: Documents, tmp_path: Path, document: Any
) -> None:
    def filled(value: Any) -> Any:
        return {"ISSUER": provider.url, "KEYS": provider.url + "/keys"}.get(str(value), value)

    if isinstance(document, dict):
        document = {name: filled(value) for name, value in document.items()}
    provider.by_path["/.well-known/openid-configuration"] = document
    verifier = TokenVerifier.of(settings(provider, tmp_path))
    with pytest.raises(Unavailable):
        await verifier.identify(ITS.sign(said(provider)))
    assert "/keys" not in provider.asked


async def test_a_provider_that_goes_away_keeps_nobody_out(
    service: httpx.AsyncClient, provider: Documents
) -> None:
    await service.get("/v1/greet", headers=bearer(ITS.sign(said(provider))))
    provider.away = True
    for number in range(3):
        fresh = ITS.sign(said(provider, jti=str(number)))
        assert (await service.get("/v1/greet", headers=bearer(fresh))).status_code == 200
        stranger = SigningKey.new("RS256", kid=f"unknown-{number}").sign(said(provider))
        assert (await service.get("/v1/greet", headers=bearer(stranger))).status_code == 401
        await asyncio.sleep(0.06)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"token_audience": ""}, "token_audience"),
        ({"token_issuer": "login.city.example"}, "token_issuer"),
        ({"token_claims": "who=sub"}, "token_claims"),
        ({"token_claims": "subject"}, "token_claims"),
        ({"token_scopes": "root=ops"}, "token_scopes"),
        ({"token_scopes": "admin="}, "token_scopes"),
        ({"token_keys": "http://"}, "token_keys"),
    ],
)
def test_settings_of_a_provider_that_make_no_sense_are_named(
    provider: Documents, tmp_path: Path, changes: dict[str, str], field: str
) -> None:
    with pytest.raises(TocsinError) as refusal:
        TokenVerifier.of(settings(provider, tmp_path, **changes))
    assert isinstance(refusal.value, SettingError)
    assert refusal.value.field == field


def test_a_scope_that_a_provider_names_is_taken_and_others_are_passed_over(
    provider: Documents, tmp_path: Path
) -> None:
    from tocsin.service.keys.claims import ClaimMap

    plain = ClaimMap.read("", "")
    token = claims_for("ann", ["publish"], expires_s=60, now=0, roles=["r"]) | {
        "scope": "openid publish email"
    }
    assert plain.scopes_of(token) == {"publish"}
    assert plain.roles_of(token) == {"r"}
    dotted = ClaimMap.read("roles=https://city.example/roles", "")
    assert dotted.roles_of({"https://city.example/roles": ["chief"]}) == {"chief"}
    assert dotted.roles_of({"https://city": {"example/roles": ["chief"]}}) == {"chief"}
    assert dotted.roles_of({"https://city": 3}) == frozenset()
