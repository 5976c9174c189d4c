"""What a gateway's credential is good for, and what it is not; and a dataset made anew, a token
revoked, a grant taken away between a gateway's check and the leader's append."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from cluster.test_grants import ADMIN, REPORTS, sql, who
from cluster.test_grants import token as token_of
from gateway.doors import GatewayHere, gateway_before
from tocsin.cli.keys import _entry
from tocsin.errors import SettingError
from tocsin.model import Column
from tocsin.protocol.appends import (
    MESSAGE_PACK,
    Append,
    AppendOutcomes,
    Appends,
    EncodedRecord,
)
from tocsin.protocol.keys import Revoked
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.key_sets import KeySetFile
from tocsin.service.keys.revocations import FILE, write_revoked
from tocsin.service.tokens import claims_for, mint

PUBLISH = "/v1/datasets/reports/records"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SparklessCluster]:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(REPORTS)
        yield cluster


@pytest.fixture
async def gateway(cluster: SparklessCluster) -> AsyncIterator[GatewayHere]:
    async with gateway_before(cluster.url) as gateway:
        yield gateway


async def published(url: str, token: str, body: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as http:
        headers = {"authorization": f"Bearer {token}"}
        return await http.post(url + PUBLISH, json=body, headers=headers)


async def appended(url: str, token: str, appends: Appends) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}", "content-type": MESSAGE_PACK}
    async with httpx.AsyncClient() as http:
        body = msgspec.msgpack.encode(appends)
        return await http.post(f"{url}/v1/appends", content=body, headers=headers)


def minted(subject: str, *scopes: str) -> str:
    return mint(SECRET, subject, scopes, expires_s=600, now=time.time())


async def test_only_gateways_append_and_only_what_a_publisher_showed_a_token_for(
    cluster: SparklessCluster,
) -> None:
    record = [EncodedRecord(b'{"n":1}')]
    for scopes in (("publish",), ("admin",), ("broker",), ("publish", "subscribe", "admin")):
        refused = await appended(cluster.url, minted("eve", *scopes), Appends([], []))
        assert refused.status_code == 403, scopes
    own = minted("gateway_1", "gateway")
    tokens = [own, "nonsense", minted("ann", "subscribe"), minted("ann", "publish")]
    appends = [Append("reports", 1.0, place, record) for place in (0, 1, 2, 3, 4)]
    answer = await appended(cluster.url, own, Appends(tokens, appends))
    outcomes = msgspec.msgpack.decode(answer.content, type=AppendOutcomes).outcomes
    codes = [getattr(outcome.error, "code", None) for outcome in outcomes]
    assert codes == ["forbidden", "unauthenticated", "forbidden", None, "invalid_input"]
    assert outcomes[3].end == cluster.log.ends()["reports"] > 0
    assert (await published(cluster.url, own, {"n": 1})).status_code == 403
    for body in (b"", b"\x93", msgspec.msgpack.encode({"tokens": 7})):
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {own}"}) as http:
            assert (await http.post(f"{cluster.url}/v1/appends", content=body)).status_code == 400


async def test_a_dataset_made_anew_is_read_again_and_records_are_checked_against_it(
    cluster: SparklessCluster, gateway: GatewayHere
) -> None:
    token = minted("ann", "publish")
    assert (await published(gateway.url, token, {"n": 1})).json()["accepted"] == 1
    await cluster.drop_dataset("reports")
    assert (await published(gateway.url, token, {"n": 1})).status_code == 404
    await cluster.create_dataset(
        replace(REPORTS, columns=(Column("words", "STRING"),), created_at=2.0)
    )
    other = await published(gateway.url, token, [{"words": "some"}, {"n": 1}])
    assert (other.json()["accepted"], other.json()["rejected"]) == (1, 1), other.text
    assert "has no column 'n'" in other.json()["errors"][0]["reason"]


async def test_what_was_taken_away_after_the_gateway_looked_is_refused_by_the_leader(
    cluster: SparklessCluster, gateway: GatewayHere, tmp_path: Path
) -> None:
    await sql(cluster, "CREATE ROLE nurses; GRANT PUBLISH ON DATASET reports TO nurses")
    ann = token_of(who("ann", "nurses"))
    assert (await published(gateway.url, ann, {"n": 1})).status_code == 200
    before = cluster.log.ends()["reports"]
    await sql(
        cluster,
        "REVOKE PUBLISH ON DATASET reports FROM nurses; CREATE ROLE cooks;"
        " GRANT PUBLISH ON DATASET reports TO cooks",
        ADMIN,
    )
    refused = await published(gateway.url, ann, {"n": 1})
    direct = await published(cluster.url, ann, {"n": 1})
    assert (refused.status_code, refused.json()) == (direct.status_code, direct.json())
    assert refused.status_code in (403, 404)
    for body in ("no record", [1]):  # and they do not learn that there is such a dataset
        assert (await published(gateway.url, ann, body)).json() == direct.json()
    cook = token_of(who("bob", "cooks"))
    assert (await published(gateway.url, cook, {"n": 1})).status_code == 200
    write_revoked(Path(cluster.settings.data) / FILE, Revoked([], ["bob"], []))
    cluster.verifier._looked_at = 0.0  # it looks twice a second
    assert (await published(gateway.url, cook, {"n": 1})).status_code == 401
    after = cluster.log.ends()["reports"]
    assert after > before
    assert cluster.log.ends()["reports"] == after


async def test_with_public_keys_a_gateway_has_one_of_its_own_that_signs_nothing_else(
    tmp_path: Path,
) -> None:
    people = SigningKey.new("EdDSA", kid="people", subject=None, scopes=None)
    own = SigningKey.new("EdDSA", kid="gateway_1", subject="gateway_1", scopes=["gateway"])
    keys = tmp_path / "jwks.json"
    for key in (people, own):
        _, public = key.write(tmp_path / "keys", key.id)
        KeySetFile(keys).add(_entry(public))
    signed = {"secret": "", "token_keys": str(keys)}
    (tmp_path / "data").mkdir()
    async with sparkless(tmp_path / "data", **signed) as cluster:
        await cluster.create_dataset(REPORTS)

        def token(key: SigningKey, subject: str, *scopes: str) -> str:
            return key.sign(claims_for(subject, scopes, expires_s=600, now=time.time()))

        with pytest.raises(SettingError, match="a gateway needs a credential of its own"):
            async with gateway_before(cluster.url, **signed):
                pass
        given = signed | {"gateway_key": str(tmp_path / "keys")}
        async with gateway_before(cluster.url, **given) as gateway:
            ann = token(people, "ann", "publish")
            assert (await published(gateway.url, ann, {"n": 1})).status_code == 200
            forged = token(own, "gateway_1", "publish")
            assert (await published(gateway.url, forged, {"n": 1})).status_code == 401
            assert (await published(cluster.url, forged, {"n": 1})).status_code == 401
        given = signed | {"gateway_token": ann}
        async with gateway_before(cluster.url, **given) as wrong:
            refused = await published(wrong.url, ann, {"n": 1})
            assert refused.status_code == 503
            assert "the cluster refuses this gateway" in refused.json()["error"]["message"]
            assert wrong.trouble is not None
