"""POST /v1/commits: brokers and deliveries hear of what was stored beside the cluster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from tocsin.cluster.writing.telling import Telling
from tocsin.errors import SettingError
from tocsin.model import Channel, Dataset, Head
from tocsin.service.keys.credentials import writer_credential
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.key_sets import KeySetFile
from tocsin.service.tokens import mint
from tocsin.settings import Settings
from tocsin.storage.store.runs import Committed

STORED: dict[str, Any] = {
    "channel": "c",
    "sequence": 4,
    "heads": [{"backend": 7, "epoch": "e", "head": 2}],
    "backends": [7, 7],
    "positions": [1, 2],
    "values": [{"n": 1}, 2],
    "at": 1.5,
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SparklessCluster]:
    async with sparkless(tmp_path) as made:
        made.store.catalog.create_dataset(Dataset("reports", ()))
        made.store.catalog.create_channel(
            Channel("c", "continuous", (), "SELECT 1", ("reports",), ("reports",))
        )
        yield made


async def told(cluster: SparklessCluster, *commits: Any, scope: str = "writer") -> httpx.Response:
    token = mint(SECRET, "writer", [scope], expires_s=600, now=time.time())
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=cluster.url, headers=headers) as http:
        return await http.post("/v1/commits", json={"commits": commits})


async def test_brokers_are_told_what_a_writer_has_stored(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, Committed]] = []
    delivered: list[str] = []
    monkeypatch.setattr(
        cluster.notifier, "results_committed", lambda channel, of: heard.append((channel.name, of))
    )
    monkeypatch.setattr(cluster.deliveries, "committed", delivered.append)
    assert (await told(cluster, STORED, STORED | {"channel": "dropped"})).status_code == 200
    ((name, committed),) = heard
    assert (name, delivered) == ("c", ["c"])
    assert (committed.backends, committed.positions) == ([7, 7], [1, 2])
    assert committed.payloads == [b'{"n":1}', b"2"]
    assert [head.head for head in committed.heads] == [2]


@pytest.mark.parametrize(
    "wrong", [{"positions": [1]}, {"values": []}, {"heads": []}, {"backends": [7, 8]}]
)
async def test_columns_that_do_not_fit_are_refused(
    cluster: SparklessCluster, wrong: dict[str, Any]
) -> None:
    answer = await told(cluster, STORED | wrong)
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "commits"


@pytest.mark.parametrize("scope", ["publish", "broker", "gateway", "admin"])
async def test_none_but_writers_may_tell(cluster: SparklessCluster, scope: str) -> None:
    assert (await told(cluster, STORED, scope=scope)).status_code == 403


async def test_with_public_keys_a_writer_has_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = SigningKey.new("EdDSA", kid="writer_1", subject="writer_1", scopes=["writer"])
    private, public = own.write(tmp_path / "keys", own.id)
    keys = tmp_path / "jwks.json"
    KeySetFile(keys).add(json.loads(public.read_text()))
    signed: dict[str, Any] = {"secret": "", "token_keys": str(keys)}
    with pytest.raises(SettingError, match="a writer needs a credential of its own"):
        writer_credential(Settings(**signed))
    heard = asyncio.Event()
    (tmp_path / "data").mkdir()
    async with sparkless(tmp_path / "data", **signed) as cluster:
        cluster.store.catalog.create_dataset(Dataset("reports", ()))
        cluster.store.catalog.create_channel(
            Channel("c", "continuous", (), "SELECT 1", ("reports",), ("reports",))
        )
        monkeypatch.setattr(cluster.deliveries, "committed", lambda _: heard.set())
        telling = Telling(cluster.url, writer_credential(Settings(writer_key=str(private))))
        running = asyncio.create_task(telling.run())
        heads = [Head(7, "e", 1)]
        telling.committed(Committed("c", "real-time", 4, heads, [7], [1], [b"{}"], at=1.5))
        async with asyncio.timeout(20):
            await heard.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
