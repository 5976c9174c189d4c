"""Who only reads writes nothing: no row of the store, no commit, no byte of the log."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from tocsin.cluster.service import routes
from tocsin.cluster.statements import execute
from tocsin.model import Channel, Parameter
from tocsin.service.tokens import Identity, mint
from tocsin.storage.store.matches import Match

ADMIN = Identity("root", frozenset({"admin", "subscribe", "publish"}), 2e9)
QUERIES = {
    "/v1/brokers/{name}/news": "?since=0",
    "/v1/brokers/{name}/subscriptions": "?limit=1",
    "/v1/datasets/{name}/log": "?after=0",
    "/v1/datasets/{name}/filter": "?where=n+%3E+1",
}
ENDLESS = {"/v1/routed"}
STATEMENTS = (
    "SHOW DATASETS",
    "SHOW CHANNELS",
    "SHOW BROKERS",
    "SHOW SUBSCRIPTIONS",
    "SHOW ROLES",
    "SHOW GRANTS",
    "SHOW GRANTS FOR readers",
    "DESCRIBE reports",
)


def token(subject: str, *scopes: str) -> dict[str, str]:
    minted = mint(SECRET, subject, scopes, expires_s=600, now=time.time())
    return {"authorization": f"Bearer {minted}"}


class World:
    """A cluster that has some of everything, of which `ann` and the broker `edge` know."""

    def __init__(self, cluster: SparklessCluster, directory: Path, names: dict[str, Any]) -> None:
        self.cluster = cluster
        self.names = names
        self._store = directory / "store.db"

    def all_(self) -> dict[str, Any]:
        """Every row of every table: of these, one is another with each commit. And the log."""
        rows: dict[str, Any] = {"log": self.cluster.log.ends()}
        with sqlite3.connect(self._store) as file:
            tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                rows[table] = sorted(map(repr, file.execute(f'SELECT * FROM "{table}"')))  # noqa: S608
        assert sum(len(rows[table]) for table in rows) > 20
        return rows


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with sparkless(tmp_path) as cluster:
        store = cluster.store
        await _told(cluster, "CREATE DATASET reports (n BIGINT, photo ATTACHMENT) ROUTED")
        kind = (Parameter("kind", "STRING"),)
        made = Channel("c", "continuous", kind, "SELECT 1", ("reports",), ("reports",))
        store.catalog.create_channel(made)
        store.catalog.put_broker("edge", "http://127.0.0.1:9")
        ann, _ = store.subscriptions.subscribe("ann", "c", {"kind": "a"}, "edge")
        store.subscriptions.subscribe("ann", "dataset/reports", {"where": "n >= 1"}, "edge")
        store.matches.store([Match("c", ann.backend.id, 1, b'{"n":1}')])
        await cluster.publish_all("reports", [{"n": 1}, {"n": 2}])
        await _told(cluster, "CREATE ROLE readers")
        async with httpx.AsyncClient(base_url=cluster.url, headers=token("ann", "publish")) as http:
            page = (await http.post("/v1/attachments", content=b"a page")).json()["id"]
        yield World(cluster, tmp_path, {"id": page, "number": ann.id, "backend": ann.backend.id})


async def _told(cluster: SparklessCluster, text: str) -> None:
    await execute(cluster, text, ADMIN, None)


async def test_no_route_that_reads_writes(world: World) -> None:
    headers = token("edge", "broker") | {"accept": "*/*"}
    before = world.all_()
    asked = 0
    async with httpx.AsyncClient(base_url=world.cluster.url, headers=headers) as http:
        for route in routes(world.cluster):
            if route.method not in ("GET", "HEAD") or route.path in ENDLESS:
                continue
            name = "edge" if "brokers" in route.path else "reports"
            name = "c" if "channels" in route.path else name
            path = route.path.replace("{name}", name).replace("{id}", world.names["id"])
            answer = await http.request(route.method, path + QUERIES.get(route.path, ""))
            assert answer.status_code == 200, (path, answer.text)
            asked += 1
        ranges = [{"backend": world.names["backend"], "after": 0, "upto": 9, "limit": 9}]
        results = await http.post("/v1/results", json={"ranges": ranges})
        assert len(results.json()["ranges"][0]["results"]) == 1
    assert asked > 10
    assert world.all_() == before


async def test_no_statement_that_reads_writes(world: World) -> None:
    before = world.all_()
    for statement in STATEMENTS:
        await _told(world.cluster, statement)
        assert world.all_() == before, statement


async def test_who_comes_again_to_the_broker_they_are_at_changes_nothing(world: World) -> None:
    """As a broker asks for everybody who lists their subscriptions, or gets results by REST."""
    shown = {"tocsin-subscriber-token": token("ann", "subscribe")["authorization"].split()[1]}
    headers = token("edge", "broker") | shown
    async with httpx.AsyncClient(base_url=world.cluster.url, headers=headers) as http:

        async def come() -> list[Any]:
            answer = await http.post("/v1/brokers/edge/attach", json={"subscriber": "ann"})
            subscriptions: list[Any] = answer.json()["subscriptions"]
            return subscriptions

        first = await come()  # what she has shown is noted
        before = world.all_()
        assert await come() == first
        assert len(first) == 2
        assert world.all_() == before
