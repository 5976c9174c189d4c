"""Whatever is wrong with a call, the answer says what and where, and nothing is half done."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tocsin.client import Client
from tocsin.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    StatementError,
    TocsinError,
    Unauthenticated,
)
from tocsin.service.tokens import mint
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

BASE = """
CREATE DATASET IF NOT EXISTS wrong_reports (id STRING, kind STRING, severity INT);
CREATE CONTINUOUS CHANNEL IF NOT EXISTS wrong_by_kind(kind STRING, least INT) AS
  SELECT r.id FROM NEW wrong_reports r WHERE r.kind = :kind AND r.severity >= :least;
"""


async def sql(live: System, text: str, *scopes: str) -> Any:
    token = live.token("ann", *(scopes or ("admin", "publish", "subscribe")))
    async with Client(cluster=live.cluster_url, token=token) as client:
        return await client.sql(text)


async def names(live: System, kind: str) -> set[str]:
    (shown,) = await sql(live, f"SHOW {kind}")
    return {row[0] for row in shown.rows}


@pytest.mark.parametrize(
    ("statement", "line", "column", "told"),
    [
        ("CREATE DATASET x (a INTEGR)", 1, 21, "INTEGR"),
        ("CREATE DATASET x (a INT, a INT)", 1, 26, "a"),
        ("CREATE DATASET x (a INT) PRIMARY KEY (b)", 1, 39, "b"),
        ("CREATE CHANNEL x() AS SELECT 1 AS one", 1, 8, "CHANNEL"),
        (
            "CREATE CONTINUOUS CHANNEL x() AS\n  SELECT r.colour FROM NEW wrong_reports r",
            2,
            10,
            "colour",
        ),
        ("CREATE CONTINUOUS CHANNEL x() AS SELECT r.id FROM NEW nowhere r", 1, 55, "nowhere"),
        ("CREATE CONTINUOUS CHANNEL x() AS SELECT r.id FROM wrong_reports r", 1, 34, "NEW"),
        (
            "CREATE CONTINUOUS CHANNEL x() AS SELECT r.id FROM NEW wrong_reports r WHERE r.id = :p",
            1,
            84,
            "p",
        ),
        ("CREATE REPETITIVE CHANNEL x() AS SELECT 1 AS one", 1, 31, "EVERY"),
        ("SELEC 1", 1, 1, "SELEC"),
    ],
)
async def test_statement_that_is_wrong_is_told_with_its_place(
    live: System, statement: str, line: int, column: int, told: str
) -> None:
    await sql(live, BASE)
    with pytest.raises(StatementError) as error:
        await sql(live, statement)
    assert told in error.value.message
    assert (error.value.line, error.value.column) == (line, column)
    assert "x" not in await names(live, "DATASETS") | await names(live, "CHANNELS")


async def test_text_that_does_not_parse_runs_none_of_its_statements(live: System) -> None:
    with pytest.raises(StatementError):
        await sql(live, "CREATE DATASET half_done (a INT); CREATE DATASET other (b NONSENSE);")
    assert "half_done" not in await names(live, "DATASETS")


async def test_name_that_is_taken_and_object_that_is_needed_are_conflicts(live: System) -> None:
    await sql(live, BASE)
    with pytest.raises(Conflict):
        await sql(live, "CREATE DATASET wrong_reports (a INT)")
    with pytest.raises(Conflict, match="wrong_by_kind"):
        await sql(live, "DROP DATASET wrong_reports")
    (made,) = await sql(live, "SUBSCRIBE TO wrong_by_kind('fire', 3)")
    number = made.rows[0][0]
    with pytest.raises(Conflict, match=str(number)):
        await sql(live, "DROP CHANNEL wrong_by_kind")
    await sql(live, f"UNSUBSCRIBE {number}")


@pytest.mark.parametrize(
    ("call", "kind", "field"),
    [
        ("nowhere('x')", NotFound, "channel"),
        ("wrong_by_kind('x')", InvalidInput, "least"),
        ("wrong_by_kind('x', 'high')", InvalidInput, "least"),
        ("wrong_by_kind('x', 1, 2)", InvalidInput, "3"),
        ("wrong_by_kind(kind => 'x', most => 1)", InvalidInput, "most"),
        ("wrong_by_kind('x', NULL)", InvalidInput, "least"),
        ("wrong_by_kind('x', 1) ON nobody", NotFound, "broker"),
    ],
)
async def test_subscription_that_makes_no_sense_is_refused_by_name(
    live: System, call: str, kind: type[TocsinError], field: str
) -> None:
    await sql(live, BASE)
    with pytest.raises(kind) as error:
        await sql(live, f"SUBSCRIBE TO {call}")
    assert field in (error.value.field or error.value.message)
    (shown,) = await sql(live, "SHOW SUBSCRIPTIONS", "subscribe")
    assert shown.rows == []


async def test_each_statement_needs_its_scope(live: System) -> None:
    await sql(live, BASE)
    for text, scope in [
        ("CREATE DATASET mine (a INT)", "publish"),
        ("INSERT INTO wrong_reports VALUES ('a', 'b', 1)", "admin"),
        ("SELECT 1 AS one", "subscribe"),
        ("SUBSCRIBE TO wrong_by_kind('x', 1)", "publish"),
    ]:
        with pytest.raises(Forbidden):
            await sql(live, text, scope)


async def test_nobody_touches_the_subscriptions_of_others(live: System) -> None:
    await sql(live, BASE)
    (made,) = await sql(live, "SUBSCRIBE TO wrong_by_kind('mine', 3)")
    number = made.rows[0][0]
    token = live.token("eve", "subscribe")
    async with Client(cluster=live.cluster_url, token=token) as eve:
        for text in (f"UNSUBSCRIBE {number}", f"CHANGE SUBSCRIPTION {number} TO broker_2"):
            with pytest.raises(NotFound):
                await eve.sql(text)
        (shown,) = await eve.sql("SHOW SUBSCRIPTIONS")
        assert shown.rows == []
    await sql(live, f"UNSUBSCRIBE {number}")


async def test_subscription_is_put_on_a_broker_and_moved_by_statement(live: System) -> None:
    await sql(live, BASE)
    (made,) = await sql(live, "SUBSCRIBE TO wrong_by_kind('moved', 3) ON broker_1")
    at = {name: index for index, name in enumerate(made.columns)}
    number = made.rows[0][at["subscription"]]
    assert made.rows[0][at["broker"]] == "broker_1"
    await sql(live, f"CHANGE SUBSCRIPTION {number} TO broker_2")
    (shown,) = await sql(live, "SHOW SUBSCRIPTIONS")
    brokers = {row[at["subscription"]]: row[at["broker"]] for row in shown.rows}
    assert brokers[number] == "broker_2"
    await sql(live, f"UNSUBSCRIBE {number}")


async def test_tokens_are_checked_on_every_route_of_every_service(live: System) -> None:
    expired = mint(live.settings.secret, "ann", ["admin"], expires_s=1, now=time.time() - 600)
    open_paths = {"/v1/status", "/v1/notices", "/healthz", "/metrics", "/docs", "/openapi.json"}
    async with httpx.AsyncClient() as http:
        for base in (live.cluster_url, live.coordinator_url, *live.broker_urls.values()):
            paths = (await http.get(f"{base}/openapi.json")).json()["paths"]
            assert len(paths) > 2
            for path, methods in paths.items():
                for method, operation in methods.items():
                    if path in open_paths:
                        assert "security" not in operation, path
                        continue
                    url = base + path.replace("{name}", "x").replace("{number}", "1")
                    url = url.replace("{id}", "1")
                    for headers in ({}, {"Authorization": f"Bearer {expired}"}):
                        answer = await http.request(method, url, headers=headers)
                        assert answer.status_code == 401, (method, url)


async def test_body_over_the_limit_is_refused_and_nothing_is_taken(live: System) -> None:
    await sql(live, BASE)
    headers = {"Authorization": f"Bearer {live.token('ann', 'publish')}"}
    url = f"{live.cluster_url}/v1/datasets/wrong_reports/records"
    body = [{"id": "x" * 100, "kind": "big", "severity": 1}] * 20_000
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        answer = await http.post(url, json=body)
        assert answer.status_code == 413
        one = await http.post(url, json={"id": "x" * 20_000, "kind": "big", "severity": 1})
        assert one.status_code == 422
        assert one.json()["rejected"] == 1
    (found,) = await sql(live, "SELECT count(*) AS n FROM wrong_reports WHERE kind = 'big'")
    assert found.rows == [[0]]


async def test_client_with_a_wrong_token_is_told_so(live: System) -> None:
    with pytest.raises(Unauthenticated):
        async with Client(live.coordinator_url, token="nonsense") as client:
            await client.subscribe("wrong_by_kind", kind="x", least=1)
