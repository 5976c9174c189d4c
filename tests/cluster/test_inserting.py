"""INSERT over HTTP: what is sent again under its key is inserted once, and doubt is told."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from tocsin.errors import Unavailable, Unconfirmed
from tocsin.model import Column, Dataset
from tocsin.service.tokens import mint
from tocsin.storage.log import Appended, open_reader

NOTES = Dataset("notes", (Column("n", "BIGINT"),), created_at=1.0)
TWICE = "INSERT INTO notes VALUES (1); INSERT INTO notes VALUES (1);"


async def insert(cluster: SparklessCluster, text: str, key: str | None = None) -> httpx.Response:
    token = mint(SECRET, "ann", ("publish",), expires_s=60, now=time.time())
    headers = {"authorization": f"Bearer {token}"} | ({"idempotency-key": key} if key else {})
    async with httpx.AsyncClient() as http:
        return await http.post(
            f"{cluster.url}/v1/statements", json={"sql": text}, headers=headers, timeout=30
        )


async def test_inserts_under_the_same_key_are_taken_once(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(NOTES)

        async def taken(text: str, key: str | None) -> bool:
            before = cluster.log.ends()["notes"]
            answer = await insert(cluster, text, key)
            told = [each["message"] for each in answer.json()["results"]]
            assert told == ["1 accepted, 0 refused"] * 2
            return cluster.log.ends()["notes"] > before

        assert await taken(TWICE, "a")
        assert not await taken(TWICE, "a")
        assert await taken(TWICE, "b")
        assert await taken(TWICE, None)
        end = cluster.log.ends()["notes"]
        assert len(list(open_reader(cluster.log.address).lines("notes", 0, end))) == 6
        assert (await insert(cluster, TWICE, "k" * 300)).status_code == 400


async def test_an_insert_without_confirmation_says_that_it_may_be_there(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(NOTES)

        def unconfirmed(*_: Any) -> Future[Appended]:
            future: Future[Appended] = Future()
            future.set_exception(Unconfirmed.after(Unavailable("Kafka did not answer")))
            return future

        cluster.log.append = unconfirmed  # type: ignore[method-assign, assignment]
        answer = await insert(cluster, "INSERT INTO notes VALUES (1)")
    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (503, "unconfirmed")
    assert "not known whether it was taken" in told["message"]
    assert "Idempotency-Key" in told["hint"]
