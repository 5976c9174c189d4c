"""Quotas at the cluster: what statements say of them, and whom they refuse, by statements and REST,
for themselves and through brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from cluster.sparkless import ContractDriver, SparklessCluster
from cluster.test_grants import ADMIN, ALL, called, furnished, sql, token, who
from contracts.cluster_contract import probe
from gateway.doors import DOORS, through
from tocsin.cluster.rates import SECOND
from tocsin.errors import Forbidden, InvalidInput, NotFound, QuotaExceeded, StatementError
from tocsin.service.tokens import Identity

RECORDS = "/v1/datasets/reports/records"
ANN, BOB = who("ann", "Nurses"), who("bob", "cooks")


class Clock:
    """Stands still until it is moved."""

    now = SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture(name="cluster", params=DOORS)
async def _cluster(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[SparklessCluster]:
    async with furnished(tmp_path) as cluster, through(cluster, request.param):
        cluster.throttle._clock = Clock()
        await sql(cluster, "CREATE ROLE nurses; CREATE ROLE cooks")
        yield cluster


def refusals(quota: str) -> float:
    return REGISTRY.get_sample_value("tocsin_quota_refusals_total", {"quota": quota}) or 0.0


def after(cluster: SparklessCluster, seconds: float) -> None:
    clock: Any = cluster.throttle._clock
    clock.now += int(seconds * SECOND)


async def subscribe(cluster: SparklessCluster, identity: Identity, number: int) -> Any:
    body = {"channel": "alerts", "arguments": {"n": number}}
    return await called(cluster, identity, "POST", "/v1/subscriptions", body)


async def test_statements_about_quotas_do_and_say_what_they_did(cluster: SparklessCluster) -> None:
    async def said(text: str) -> str:
        return (await sql(cluster, text)).message

    assert await said("SET QUOTA subscriptions = 5 FOR ROLE nurses") == (
        "subscriptions: 5 per subscriber for ROLE nurses"
    )
    await sql(cluster, "SET QUOTA bytes = 7 PER SECOND FOR EVERYBODY")
    await sql(cluster, "SET QUOTA connections = 1 FOR ROLE cooks")
    everything = [
        ["EVERYBODY", "bytes", 7, "second"],
        ["ROLE cooks", "connections", 1, "broker"],
        ["ROLE nurses", "subscriptions", 5, "subscriber"],
    ]
    shown = await sql(cluster, "SHOW QUOTAS")
    assert (shown.columns, shown.rows) == (["for", "quota", "size", "per"], everything)
    assert (await sql(cluster, "SHOW QUOTAS", ANN)).rows == [everything[0], everything[2]]
    assert await said("DROP QUOTA bytes FOR EVERYBODY") == "quota of bytes for EVERYBODY dropped"
    assert "nothing has changed" in await said("DROP QUOTA bytes FOR EVERYBODY")
    await sql(cluster, "DROP ROLE nurses")
    assert (await sql(cluster, "SHOW QUOTAS")).rows == [everything[1]]
    with pytest.raises(NotFound, match="no role nurses"):
        await sql(cluster, "SET QUOTA bytes = 7 PER SECOND FOR ROLE nurses")
    for text in ("SET QUOTA connections = 1 FOR EVERYBODY", "DROP QUOTA connections FOR EVERYBODY"):
        with pytest.raises(Forbidden, match="admin"):
            await sql(cluster, text, ANN)


async def test_what_somebody_uses_is_shown_to_them_and_to_admins(cluster: SparklessCluster) -> None:
    await sql(cluster, "SUBSCRIBE TO alerts(1); SUBSCRIBE TO alerts(2)", ANN)
    for identity in (ANN, ADMIN):
        shown = await sql(cluster, "SHOW QUOTAS FOR SUBSCRIBER 'ann'", identity)
        assert shown.columns == ["quota", "used", "channel"]
        assert shown.rows == [["subscriptions", 2, ""], ["parameter_sets", 2, "alerts"]]
    with pytest.raises(Forbidden, match="only an admin"):
        await sql(cluster, "SHOW QUOTAS FOR SUBSCRIBER 'ann'", BOB)


async def test_who_has_as_many_as_allowed_is_refused_more_by_every_way(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA subscriptions = 2 FOR ROLE nurses")
    await sql(cluster, "SUBSCRIBE TO alerts(1)", ANN)
    assert (await subscribe(cluster, ANN, 2)).status_code == 200
    before = refusals("subscriptions")
    refused = await subscribe(cluster, ANN, 3)
    assert refused.status_code == 429
    assert "retry-after" not in refused.headers  # nobody knows when there is room
    error = refused.json()["error"]
    assert (error["code"], error["field"]) == ("quota_exceeded", "subscriptions")
    assert "ann uses 2 of 2 subscriptions" in error["message"]
    with pytest.raises(QuotaExceeded):
        await sql(cluster, "SUBSCRIBE TO DATASET contract_routed", ANN)
    async with probe(ContractDriver(cluster, stored=False)) as broker:
        body = {
            "subscriber": "ann",
            "broker": broker.name,
            "channel": "others",
            "arguments": {"n": 1},
        }
        ask = "POST", "/v1/subscriptions", body
        await broker.call(*ask, status=429, on_behalf=token(ANN))
        assert refusals("subscriptions") == before + 3
        await broker.call(*ask, on_behalf=token(who("ann", "cooks")))  # who have no quota
    assert (await subscribe(cluster, ANN, 2)).status_code == 200  # it is there
    for number in range(5):
        assert (await subscribe(cluster, BOB, number)).status_code == 200
    for made in cluster.store.subscriptions.of_subscriber("ann")[:2]:
        await sql(cluster, f"UNSUBSCRIBE {made.id}", ANN)
    assert (await subscribe(cluster, ANN, 3)).status_code == 200


async def test_subscriptions_of_one_text_are_made_whole_or_not_at_all(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA subscriptions = 3 FOR EVERYBODY")
    three = "SUBSCRIBE TO alerts(1); SUBSCRIBE TO alerts(2); SUBSCRIBE TO DATASET contract_routed"
    with pytest.raises(QuotaExceeded, match=r"uses 0 of 3 .* no room for 4 more"):
        await sql(cluster, f"{three}; SUBSCRIBE TO others(1)", ANN)
    with pytest.raises(StatementError, match="nothing") as wrong:
        await sql(cluster, f"{three} WHERE nothing = 1", ANN)
    assert (wrong.value.line, wrong.value.column) == (1, 92)
    assert cluster.store.subscriptions.all_() == []
    assert (await sql(cluster, three, ANN)).columns[0] == "subscription"
    assert len(cluster.store.subscriptions.all_()) == 3
    await sql(cluster, three, ANN)
    assert len(cluster.store.subscriptions.all_()) == 3


async def test_who_publishes_too_fast_hears_when_to_come_again(cluster: SparklessCluster) -> None:
    await sql(cluster, "SET QUOTA publications = 4 PER SECOND FOR ROLE nurses")
    three = [{"n": 1}, {"n": 2}, {"m": "does not fit, and counts"}]
    before = refusals("publications")

    async def publish(identity: Identity, records: Any) -> Any:
        return await called(cluster, identity, "POST", RECORDS, records)

    assert (await publish(ANN, three)).status_code == 200
    end = cluster.log.ends()["reports"]
    refused = await publish(ANN, three)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    error = refused.json()["error"]
    assert (error["field"], error["retry_after_s"]) == ("publications", 1)
    assert cluster.log.ends()["reports"] == end
    assert (await publish(ANN, {"n": 3})).status_code == 200  # for which there is room
    with pytest.raises(QuotaExceeded) as over:
        await sql(cluster, "INSERT INTO reports VALUES (1)", ANN)
    assert over.value.retry_after_s == 1
    assert refusals("publications") == before + 2
    for free in (BOB, who("root", "nurses", scopes=(*ALL, "admin"))):
        for _ in range(3):
            assert (await publish(free, three)).status_code == 200
    after(cluster, 0.75)
    assert (await publish(ANN, three)).status_code == 200


async def test_a_request_larger_than_a_second_passes_and_is_paid_off(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA publications = 4 PER SECOND FOR EVERYBODY")
    many = [{"n": number} for number in range(41)]
    assert (await called(cluster, ANN, "POST", RECORDS, many)).status_code == 200
    refused = await called(cluster, ANN, "POST", RECORDS, {"n": 1})
    assert refused.headers["retry-after"] == "11"  # when there is room for any number
    after(cluster, 10)
    assert (await called(cluster, ANN, "POST", RECORDS, [{"n": 1}] * 4)).status_code == 429
    after(cluster, 1)
    assert (await called(cluster, ANN, "POST", RECORDS, many)).status_code == 200


async def test_a_large_body_is_refused_whole_when_it_has_been_read(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA publications = 10000 PER SECOND FOR EVERYBODY")
    many = [{"n": number} for number in range(8000)]
    assert (await called(cluster, ANN, "POST", RECORDS, many)).status_code == 200
    end = cluster.log.ends()["reports"]
    assert (await called(cluster, ANN, "POST", RECORDS, many)).status_code == 429
    assert cluster.log.ends()["reports"] == end
    assert (await called(cluster, ANN, "POST", RECORDS, many[:1000])).status_code == 200


async def test_bytes_are_those_of_bodies_statements_and_attachments(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA bytes = 100 PER SECOND FOR EVERYBODY")
    before = refusals("bytes")

    async def refused() -> None:
        answer = await called(cluster, ANN, "POST", RECORDS, {"n": 1})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        after(cluster, 1)

    assert (await called(cluster, ANN, "POST", RECORDS, [{"n": 1}] * 12)).status_code == 200
    await refused()
    await sql(cluster, "INSERT INTO reports VALUES (1)" + ", (1)" * 13, ANN)
    await refused()
    upload = await called(cluster, ANN, "POST", "/v1/attachments", "x" * 97)
    assert upload.status_code == 201
    await refused()
    assert refusals("bytes") == before + 3
    with pytest.raises(InvalidInput, match="does not say how many"):
        cluster.throttle.upload(ANN, 1, None)
    await sql(cluster, "DROP QUOTA bytes FOR EVERYBODY")
    cluster.throttle.upload(ANN, 1, None)


async def test_what_one_quota_refuses_takes_nothing_of_another(cluster: SparklessCluster) -> None:
    await sql(
        cluster,
        "SET QUOTA publications = 1 PER SECOND FOR EVERYBODY;"
        "SET QUOTA bytes = 40 PER SECOND FOR EVERYBODY",
    )
    assert (await called(cluster, ANN, "POST", RECORDS, {"n": 1})).status_code == 200
    for _ in range(9):
        assert (await called(cluster, ANN, "POST", RECORDS, {"n": 1})).status_code == 429
    after(cluster, 1)
    assert (await called(cluster, ANN, "POST", RECORDS, {"n": 10**20})).status_code == 422
    after(cluster, 1)
    assert (await called(cluster, ANN, "POST", RECORDS, {"n": 1})).status_code == 200


async def test_a_broker_is_told_how_many_connections_a_subscriber_may_have(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "SET QUOTA connections = 3 FOR ROLE nurses")
    async with probe(ContractDriver(cluster, stored=False)) as broker:

        async def attached(identity: Identity) -> Any:
            path, body = f"/v1/brokers/{broker.name}/attach", {"subscriber": identity.subject}
            return await broker.call("POST", path, body, on_behalf=token(identity))

        assert await attached(ANN) == {"subscriptions": [], "connections": 3}
        assert await attached(BOB) == {"subscriptions": []}
        assert await attached(who("root", "nurses", scopes=("admin",))) == {"subscriptions": []}
