"""Roles and grants at the cluster: who may do and see what, by statements and by REST, for
themselves and through brokers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from cluster.sparkless import ROUTED, SECRET, ContractDriver, SparklessCluster, sparkless
from contracts.cluster_contract import probe
from gateway.doors import DOORS, through
from tocsin.client.transport import tls
from tocsin.cluster.statements import execute
from tocsin.errors import Conflict, Forbidden, NotFound
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.protocol.publishing import StatementResult
from tocsin.service.tokens import Identity, mint

ALL = ("publish", "subscribe")
ADMIN = Identity("root", frozenset({"admin", "publish", "subscribe"}), time.time() + 3600)
REPORTS = Dataset("reports", (Column("n", "BIGINT"),), created_at=1.0)
ALERTS = Channel(
    name="alerts",
    kind="continuous",
    parameters=(Parameter("n", "BIGINT"),),
    query="SELECT r.n FROM NEW reports AS r WHERE r.n = :n",
    reads=(),
    new=("reports",),
    created_at=1.0,
)


def who(subject: str, *roles: str, scopes: Iterable[str] = ALL) -> Identity:
    return Identity(subject, frozenset(scopes), time.time() + 3600, frozenset(roles))


def token(identity: Identity) -> str:
    scopes, roles = identity.scopes, identity.roles
    return mint(SECRET, identity.subject, scopes, expires_s=600, now=time.time(), roles=roles)


async def sql(cluster: SparklessCluster, text: str, identity: Identity = ADMIN) -> StatementResult:
    (*_, last) = await execute(cluster, text, identity, None)
    return last


async def called(
    cluster: SparklessCluster, identity: Identity, method: str, path: str, body: Any = None
) -> httpx.Response:
    headers = {"authorization": f"Bearer {token(identity)}"}
    async with httpx.AsyncClient(
        base_url=cluster.url, headers=headers, timeout=30, verify=tls()
    ) as http:
        return await http.request(method, path, json=body)


@contextlib.asynccontextmanager
async def furnished(directory: Path) -> AsyncIterator[SparklessCluster]:
    async with sparkless(directory) as cluster:
        for dataset in (ROUTED, REPORTS):
            await cluster.create_dataset(dataset)
        for name in ("alerts", "others"):
            cluster.store.catalog.create_channel(replace(ALERTS, name=name))
        yield cluster


@pytest.fixture(name="cluster", params=DOORS)
async def _cluster(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[SparklessCluster]:
    async with furnished(tmp_path) as cluster, through(cluster, request.param):
        yield cluster


async def test_statements_about_roles_do_and_say_what_they_did(cluster: SparklessCluster) -> None:
    async def said(text: str) -> str:
        return (await sql(cluster, text)).message

    assert await said("CREATE ROLE nurses") == "role nurses created"
    assert await said("CREATE ROLE IF NOT EXISTS nurses") == "role nurses was there already"
    with pytest.raises(Conflict, match="role nurses exists already"):
        await said("CREATE ROLE nurses")
    grant = "GRANT PUBLISH, READ ON DATASET reports TO nurses"
    assert "PUBLISH, READ ON DATASET reports granted to nurses; from now on" in await said(grant)
    assert await said(grant) == "it was granted already"
    assert await said("GRANT SUBSCRIBE ON CHANNEL alerts TO nurses") == (
        "SUBSCRIBE ON CHANNEL alerts granted to nurses"
    )
    shown = await sql(cluster, "SHOW GRANTS")
    assert shown.columns == ["role", "privilege", "on", "name"]
    assert shown.rows == [
        ["nurses", "SUBSCRIBE", "CHANNEL", "alerts"],
        ["nurses", "PUBLISH", "DATASET", "reports"],
        ["nurses", "READ", "DATASET", "reports"],
    ]
    assert (await sql(cluster, "CREATE ROLE cooks; SHOW ROLES")).rows == [
        ["cooks", False],
        ["nurses", True],
    ]
    assert (await sql(cluster, "SHOW GRANTS FOR cooks")).rows == []
    revoke = "REVOKE PUBLISH ON DATASET reports FROM nurses"
    assert await said(revoke) == "PUBLISH ON DATASET reports revoked from nurses"
    assert await said(revoke) == "nurses had no PUBLISH ON DATASET reports: nothing has changed"
    assert await said("DROP ROLE IF EXISTS ghosts") == "there was no role ghosts"
    for text, named in (
        ("DROP ROLE ghosts", "role ghosts"),
        ("SHOW GRANTS FOR ghosts", "role ghosts"),
        ("GRANT READ ON DATASET reports TO ghosts", "role ghosts"),
        ("GRANT READ ON DATASET ghosts TO nurses", "dataset ghosts"),
        ("GRANT SUBSCRIBE ON CHANNEL reports TO nurses", "channel reports"),
        ("REVOKE SUBSCRIBE ON CHANNEL ghosts FROM nurses", "channel ghosts"),
    ):
        with pytest.raises(NotFound, match=f"there is no {named}"):
            await said(text)
    dropped = await said("DROP ROLE nurses")
    assert dropped == ("role nurses dropped; nothing is granted any more: scopes alone decide")


async def test_only_admins_rule_and_others_see_grants_of_their_own_roles(
    cluster: SparklessCluster,
) -> None:
    await sql(
        cluster,
        "CREATE ROLE nurses; CREATE ROLE cooks; GRANT READ ON DATASET reports TO nurses;"
        "GRANT READ ON DATASET contract_routed TO cooks",
    )
    nurse = who("ann", "Nurses", "unheard_of")
    for text in (
        "CREATE ROLE r",
        "DROP ROLE nurses",
        "GRANT READ ON DATASET reports TO nurses",
        "REVOKE READ ON DATASET reports FROM nurses",
        "SHOW ROLES",
    ):
        with pytest.raises(Forbidden, match="admin"):
            await sql(cluster, text, nurse)
    own = [["nurses", "READ", "DATASET", "reports"]]
    assert (await sql(cluster, "SHOW GRANTS", nurse)).rows == own
    assert (await sql(cluster, "SHOW GRANTS FOR nurses", nurse)).rows == own
    with pytest.raises(NotFound, match="there is no role cooks"):
        await sql(cluster, "SHOW GRANTS FOR cooks", nurse)


async def test_what_nobody_granted_looks_as_if_it_were_not_there(
    cluster: SparklessCluster,
) -> None:
    nurse, nobody = who("ann", "nurses"), who("bob")
    assert len((await sql(cluster, "SHOW DATASETS", nobody)).rows) == 3  # without any grant
    await sql(
        cluster,
        "CREATE ROLE nurses; GRANT SUBSCRIBE ON CHANNEL alerts TO nurses;"
        "GRANT READ ON DATASET contract_routed TO nurses",
    )
    for identity, datasets, channels in (
        (nurse, ["contract_routed"], ["alerts"]),
        (nobody, [], []),
        (ADMIN, ["contract_routed", "dead_letters", "reports"], ["alerts", "others"]),
        (who("b1", scopes=["broker"]), ["contract_routed", "dead_letters", "reports"],
         ["alerts", "others"]),
    ):  # fmt: skip
        for what, names in (("datasets", datasets), ("channels", channels)):
            shown = await sql(cluster, f"SHOW {what}", identity)
            assert [row[0] for row in shown.rows] == names
            listed = (await called(cluster, identity, "GET", f"/v1/{what}")).json()
            assert [thing["name"] for thing in listed[what]] == names
    for name, kind in (("reports", "dataset"), ("others", "channel")):
        hidden = await called(cluster, nurse, "GET", f"/v1/{kind}s/{name}")
        absent = await called(cluster, nurse, "GET", f"/v1/{kind}s/{'x' * len(name)}")
        assert hidden.status_code == absent.status_code == 404
        assert hidden.text.replace(name, "…") == absent.text.replace("x" * len(name), "…")
        with pytest.raises(NotFound, match=f"there is no {kind} {name}"):
            await sql(cluster, f"DESCRIBE {kind} {name}", nurse)
    assert (await called(cluster, nurse, "GET", "/v1/channels/alerts")).status_code == 200
    with pytest.raises(NotFound, match="there is no channel reports"):
        await sql(cluster, "DESCRIBE reports", nurse)
    assert (await sql(cluster, "DESCRIBE contract_routed", nurse)).message == "contract_routed"


async def test_no_error_tells_of_what_is_hidden(cluster: SparklessCluster) -> None:
    """Not the columns of a dataset, nor the parameters of a channel."""
    await sql(cluster, "CREATE ROLE nurses; GRANT READ ON DATASET reports TO nurses")
    nobody = who("bob")
    for text in (
        "SUBSCRIBE TO alerts(1, 2, 3)",
        "SUBSCRIBE TO DATASET contract_routed WHERE colour = 'red'",
        "INSERT INTO reports VALUES (1, 2, 3)",
    ):
        with pytest.raises(NotFound):
            await sql(cluster, text, nobody)


async def test_one_who_may_read_a_dataset_is_told_that_publishing_is_another_matter(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "CREATE ROLE nurses; GRANT READ ON DATASET reports TO nurses")
    answer = await called(
        cluster, who("ann", "nurses"), "POST", "/v1/datasets/reports/records", {"n": 1}
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (403, "forbidden", "role")
    assert error["message"] == (
        "PUBLISH ON DATASET reports is granted to none of this token's roles (nurses)"
    )
    assert error["hint"] == "an admin may say: GRANT PUBLISH ON DATASET reports TO …"


async def test_nobody_but_the_system_writes_dead_letters(cluster: SparklessCluster) -> None:
    for identity in (who("ann"), ADMIN):
        with pytest.raises(Forbidden, match="dead_letters belongs to the system"):
            await sql(cluster, "INSERT INTO dead_letters (reason) VALUES ('x')", identity)
        for files in (None, {"record": (None, "{}", "application/json")}):
            headers = {"authorization": f"Bearer {token(identity)}"}
            url = f"{cluster.url}/v1/datasets/dead_letters/records"
            async with httpx.AsyncClient(headers=headers) as http:
                answer = await http.post(url, files=files, content=None if files else b"{}")
            assert (answer.status_code, answer.json()["error"]["field"]) == (403, "dataset")
    with pytest.raises(Conflict, match="belongs to the system"):
        await sql(cluster, "CREATE ROLE r; GRANT PUBLISH ON DATASET dead_letters TO r")
    before = cluster.log.ends()["dead_letters"]
    with pytest.raises(Exception, match="row 1"):
        await sql(cluster, "INSERT INTO reports VALUES ('no number')")
    assert cluster.log.ends()["dead_letters"] > before


async def test_a_broker_that_says_for_whom_it_asks_gets_what_they_may_have(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "CREATE ROLE nurses; GRANT READ ON DATASET contract_routed TO nurses")
    async with probe(ContractDriver(cluster, stored=False)) as broker:
        nurse, nobody = token(who("ann", "nurses")), token(who("ann"))
        body = {"subscriber": "ann", "broker": broker.name, "channel": "dataset/contract_routed"}
        attach = f"/v1/brokers/{broker.name}/attach"
        filtering = "/v1/datasets/contract_routed/filter?where=n>1"
        for path, asked in (("/v1/subscriptions", body), (filtering, None)):
            method = "GET" if asked is None else "POST"
            await broker.call(method, path, asked, 404, on_behalf=nobody)
            unsaid = await broker.call(method, path, asked, 403)
            assert unsaid["error"]["hint"] == "upgrade the broker"
            await broker.call(method, path, asked, on_behalf=nurse)
        (listed,) = (await broker.load())["subscriptions"]  # without a token at hand
        who_ = {"subscriber": "ann"}
        assert (await broker.call("POST", attach, who_, 403))["error"]["field"] == "role"
        for shown, there in ((nobody, []), (nurse, [listed]), (nobody, []), (nurse, [listed])):
            attached = await broker.call("POST", attach, who_, on_behalf=shown)
            assert attached["subscriptions"] == there
            assert (await broker.load())["subscriptions"] == there


async def test_a_revocation_tells_brokers_and_deliveries_what_has_ended(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[int] = []
    monkeypatch.setattr(
        cluster.deliveries, "unsubscribed", lambda subscription: gone.append(subscription.id)
    )
    await sql(cluster, "CREATE ROLE nurses; GRANT READ ON DATASET contract_routed TO nurses")
    async with probe(ContractDriver(cluster, stored=False)) as broker:
        body = {"subscriber": "ann", "broker": broker.name, "channel": "dataset/contract_routed"}
        path, shown = "/v1/subscriptions", token(who("ann", "nurses"))
        made = await broker.call("POST", path, body, on_behalf=shown)
        done = await sql(cluster, "REVOKE READ ON DATASET contract_routed FROM nurses")
        assert done.message.endswith("; 1 subscription ended")
        assert gone == [made["subscription"]]
        over = {"subscription": made["subscription"], "to": None}
        await broker.notice(lambda notice: over in notice["detached"])
        assert (await broker.load())["subscriptions"] == []


async def test_a_subscription_that_was_set_aside_is_not_moved_back_by_a_statement(
    cluster: SparklessCluster,
) -> None:
    await sql(cluster, "CREATE ROLE nurses; GRANT SUBSCRIBE ON CHANNEL alerts TO nurses")
    async with probe(ContractDriver(cluster, stored=False)) as broker:
        made = await sql(cluster, f"SUBSCRIBE TO alerts(1) ON {broker.name}", who("ann", "nurses"))
        number = made.rows[0][0]
        attach = f"/v1/brokers/{broker.name}/attach"
        await broker.call("POST", attach, {"subscriber": "ann"}, on_behalf=token(who("ann")))
        with pytest.raises(NotFound):
            await sql(cluster, f"CHANGE SUBSCRIPTION {number} TO {broker.name}", who("ann"))
        assert (await broker.load())["subscriptions"] == []
        await sql(cluster, f"CHANGE SUBSCRIPTION {number} TO {broker.name}", who("ann", "nurses"))
        assert len((await broker.load())["subscriptions"]) == 1
        await sql(cluster, f"UNSUBSCRIBE {number}", who("ann"))  # one may always leave


async def test_publishing_and_subscribing_do_not_ask_the_database_for_grants(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sql(cluster, "CREATE ROLE nurses; GRANT PUBLISH ON DATASET reports TO nurses")
    nurse = who("ann", "nurses")
    await sql(cluster, "INSERT INTO reports VALUES (1)", nurse)

    def refuse(*_: object) -> Any:
        raise AssertionError("the database was asked")

    monkeypatch.setattr(cluster.store._database, "read", refuse)
    await sql(cluster, "INSERT INTO reports VALUES (2)", nurse)


async def test_only_a_broker_may_pass_on_a_token(cluster: SparklessCluster) -> None:
    for identity in (who("ann", "nurses"), ADMIN):
        headers = {
            "authorization": f"Bearer {token(identity)}",
            "tocsin-subscriber-token": token(who("ann", "nurses")),
        }
        body = {"channel": "dataset/contract_routed", "subscriber": "ann"}
        async with httpx.AsyncClient(headers=headers, timeout=30, verify=tls()) as http:
            answer = await http.post(f"{cluster.url}/v1/subscriptions", json=body)
        assert answer.status_code == 403
        assert answer.json()["error"]["field"] == "Tocsin-Subscriber-Token"


async def test_a_cluster_without_grants_says_once_what_that_means(tmp_path: Path) -> None:
    said = []
    for statement in (
        "CREATE ROLE nurses",
        "GRANT READ ON DATASET reports TO nurses",
        "SHOW ROLES",
    ):
        with capture_logs() as logs:
            async with sparkless(tmp_path) as cluster:
                if statement == "CREATE ROLE nurses":
                    await cluster.create_dataset(REPORTS)
                await sql(cluster, statement)
        said.append(sum(entry["event"].startswith("nothing is granted") for entry in logs))
    assert said == [1, 1, 0]
