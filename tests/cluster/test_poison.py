# ruff: noqa: E501, S608 (poisons read best as a table)
"""One token cannot freeze the rest: whatever is sent, the cluster answers others meanwhile, writes
little, and says what was wrong with it."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.loop_watch import watched_loop
from cluster.sparkless import SECRET, SparklessCluster, sparkless
from gateway.doors import DOORS, through
from tocsin.model import Column, Dataset
from tocsin.service.tokens import mint
from tocsin.storage.log import open_reader

NOTES = Dataset("notes", (Column("n", "BIGINT"), Column("text", "STRING")), created_at=1.0)
MIB = 1024 * 1024
PATIENCE_S = 1.0
"""A loop that is held up for longer is frozen, also on a machine that is busy with other things."""
JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
PARQUET = "application/vnd.apache.parquet"


@pytest.fixture(params=DOORS)
async def cluster(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[SparklessCluster]:
    async with sparkless(tmp_path) as cluster, through(cluster, request.param):
        await cluster.create_dataset(NOTES)
        yield cluster


def headers(*scopes: str, subject: str = "eve") -> dict[str, str]:
    token = mint(SECRET, subject, scopes or ("publish",), expires_s=600, now=time.time())
    return {"authorization": f"Bearer {token}"}


async def publish(cluster: SparklessCluster, body: bytes, kind: str, **more: str) -> httpx.Response:
    sent = {**headers(), "content-type": kind, **more}
    url = f"{cluster.url}/v1/datasets/notes/records"
    async with httpx.AsyncClient(timeout=120) as http:
        return await http.post(url, content=body, headers=sent)


async def ask(cluster: SparklessCluster, text: str, *scopes: str) -> httpx.Response:
    url = f"{cluster.url}/v1/statements"
    async with httpx.AsyncClient(timeout=120) as http:
        return await http.post(url, json={"sql": text}, headers=headers(*scopes))


def letters(cluster: SparklessCluster) -> list[dict[str, Any]]:
    end = cluster.log.ends()["dead_letters"]
    lines = open_reader(cluster.log.address).lines("dead_letters", 0, end)
    return [msgspec.json.decode(body)["r"] for _, body in lines]


def parquet(table: pa.Table, **how: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **how)
    return file.getvalue()


def dictionary_bomb() -> bytes:
    """A megabyte that stands for 60 GB: one long text, named by every row."""
    index = pa.array([0] * 60_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(index, pa.array(["x" * MIB]))
    return parquet(pa.table({"text": column}), compression="zstd", use_dictionary=True)


POISONS: dict[str, tuple[Callable[[], bytes], str, set[int]]] = {
    "an array of numbers": (lambda: b"[" + b"1," * (3 * MIB // 2) + b"1]", JSON, {413}),
    "short records": (lambda: b"[" + b"{}," * 90_000 + b"{}]", JSON, {200}),
    "lines of numbers": (lambda: b"1\n" * (3 * MIB // 2), LINES, {413}),
    "blank lines": (lambda: b"\n" * (8 * MIB), LINES, {200}),
    "ends of lines of old systems": (lambda: b"{}\r" * MIB, LINES, {413}),
    "brackets": (lambda: b"[" * (3 * MIB), JSON, {400}),
    "brackets in a record": (lambda: b'{"n":' + b"[" * MIB + b"]" * MIB + b"}", JSON, {422}),
    "brackets in a line": (lambda: b'{"n":' + b"[" * 5000 + b"]" * 5000 + b"}\n", LINES, {422}),
    "a long text": (lambda: b'[{"text":"' + b"x" * (8 * MIB) + b'"}]', JSON, {422}),
    "an open text": (lambda: b'[{"text":"' + b"\\" * (8 * MIB), JSON, {400}),
    "long names": (lambda: b"".join(b'{"%d%s":1}\n' % (n, b"x" * 30_000) for n in range(200)), LINES, {422}),
    "many fields": (lambda: b"{" + b",".join(b'"%d":1' % n for n in range(150_000)) + b"}", JSON, {422}),
    "rows of one field": (lambda: b"n,text\n" + b"1\n" * MIB, CSV, {413}),
    "a row of many fields": (lambda: b"n" + b",n" * MIB, CSV, {413}),
    "a quote never closed": (lambda: b'n,text\n1,"' + b"x\n" * (3 * MIB), CSV, {400, 413}),
    "a row over many lines": (lambda: b"n,text\n" + b'"\n",' * (2 * MIB), CSV, {413}),
    "Parquet of many rows": (
        lambda: parquet(pa.table({"n": pa.array([1], pa.int64()).take(pa.array([0] * 3_000_000))})),
        PARQUET,
        {413},
    ),
    "Parquet that unfolds": (
        lambda: parquet(pa.table({"text": ["x" * MIB] * 100}), compression="zstd", use_dictionary=False),
        PARQUET,
        {413},
    ),
    "Parquet with one text for all": (dictionary_bomb, PARQUET, {413}),
    "no Parquet": (lambda: b"PAR1" + b"x" * MIB + b"PAR1", PARQUET, {400}),
}  # fmt: skip


@pytest.mark.parametrize("poison", POISONS)
async def test_others_are_answered_while_a_poisonous_body_is_read(
    cluster: SparklessCluster, poison: str
) -> None:
    made, kind, statuses = POISONS[poison]
    body = made()
    async with watched_loop() as watch, httpx.AsyncClient(timeout=120) as others:
        publishing = asyncio.create_task(publish(cluster, body, kind))
        answered = 0
        while not publishing.done():
            health = await others.get(f"{cluster.url}/healthz")
            assert health.status_code == 200
            answered += 1
            await asyncio.sleep(0.01)
        answer = await publishing
    assert answer.status_code in statuses, answer.text[:500]
    assert len(answer.content) < 256 * 1024
    if answer.status_code in (400, 413):
        error = answer.json()["error"]
        assert error["field"] == "body"
        assert cluster.log.ends()["notes"] == 0
    assert cluster.log.ends()["dead_letters"] < 2 * MIB
    assert watch.longest_s < PATIENCE_S


STATEMENTS: dict[str, tuple[str, set[int]]] = {
    "questions": ("SHOW DATASETS;" * (MIB // 15), {400}),
    "rows": ("INSERT INTO notes (n) VALUES (1)" + ",(1)" * 60_000, {200}),
    "more rows": ("INSERT INTO notes (n) VALUES (1)" + ",(1)" * 250_000, {400}),
    "a long text": ("SHOW DATASETS;" * (2 * MIB // 14), {413}),
    "parentheses": ("INSERT INTO notes VALUES (" + "ARRAY(" * 5000 + "1" + ")" * 5001, {400}),
    "columns": ("INSERT INTO notes (" + ",".join(f"c{n}" for n in range(60_000)) + ") VALUES (1)", {400}),
    "open comments": ("/*" * 300_000, {400}),
    "quotes": ("SHOW '" + "''" * 300_000, {400}),
    "a long number": ("UNSUBSCRIBE " + "9" * 6000, {400}),
    "a number of another alphabet": ("UNSUBSCRIBE ²", {400}),
    "a number that no store holds": ("UNSUBSCRIBE 99999999999999999999", {400}),
    "a type": ("CREATE DATASET d (c " + "ARRAY<" * 3000 + "INT" + ">" * 3000 + ")", {400}),
    "signs of patterns": ("SUBSCRIBE TO DATASET notes WHERE text LIKE '" + "%" * 100_000 + "_'", {400}),
    "conditions": ("SUBSCRIBE TO DATASET notes WHERE n = 1" + " AND n <> 1" * 30_000, {400}),
    "values": (f"SUBSCRIBE TO DATASET notes WHERE n IN (1{',1' * 60_000})", {400}),
    "arguments": ("SUBSCRIBE TO notes(" + ",".join(f"a{n} => 1" for n in range(40_000)) + ")", {400}),
    "queries": ("SELECT " + "(" * 3000 + "1" + ")" * 3000, {400}),
}  # fmt: skip


@pytest.mark.parametrize("poison", STATEMENTS)
async def test_others_are_answered_while_poisonous_statements_are_read(
    cluster: SparklessCluster, poison: str
) -> None:
    text, statuses = STATEMENTS[poison]
    async with watched_loop() as watch, httpx.AsyncClient(timeout=120) as others:
        asking = asyncio.create_task(ask(cluster, text, "admin", "publish", "subscribe"))
        while not asking.done():
            assert (await others.get(f"{cluster.url}/healthz")).status_code == 200
            await asyncio.sleep(0.01)
        answer = await asking
    assert answer.status_code in statuses, answer.text[:500]
    assert watch.longest_s < PATIENCE_S


async def test_what_is_not_allowed_is_refused_before_the_rest_is_read(
    cluster: SparklessCluster,
) -> None:
    answer = await ask(cluster, "DROP DATASET notes; this is no statement at all", "publish")
    assert answer.status_code == 403


async def test_who_may_only_subscribe_needs_few_words(cluster: SparklessCluster) -> None:
    text = "SHOW DATASETS" + " " * 100_000
    assert (await ask(cluster, text, "publish")).status_code == 200
    assert (await ask(cluster, text, "subscribe")).status_code == 413


async def test_dead_letters_of_a_request_are_bounded_and_told(cluster: SparklessCluster) -> None:
    body = b"\n".join(b'{"n":"wrong %d"}' % n for n in range(20_000))
    answer = await publish(cluster, body, LINES)
    assert answer.status_code == 422
    told = answer.json()
    assert (told["accepted"], told["rejected"]) == (0, 20_000)
    assert len(told["errors"]) == 100
    assert told["summed_up"] == 19_900
    kept = letters(cluster)
    assert [letter["line"] for letter in kept] == list(range(1, 102))
    assert kept[-1]["reason"].startswith("19900 more records")
    assert kept[-1]["publisher"] == "eve"


async def test_a_dead_letter_keeps_the_beginning_of_a_long_record(
    cluster: SparklessCluster,
) -> None:
    body = msgspec.json.encode({"n": "no number", "text": "x" * 500_000})
    assert (await publish(cluster, body, JSON)).status_code == 422
    (letter,) = letters(cluster)
    assert letter["record"] == body[: 16 * 1024].decode()
    assert f"it has {len(body)} characters" in letter["reason"]


@pytest.mark.parametrize("door", DOORS)
async def test_one_publisher_takes_one_thread_and_half_of_the_room(
    tmp_path: Path, door: str
) -> None:
    body = b"\n".join(b'{"n":%d}' % n for n in range(50_000))
    async with (
        sparkless(tmp_path, body_limit_bytes=len(body)) as cluster,
        through(cluster, door),
    ):
        await cluster.create_dataset(NOTES)
        answers = await asyncio.gather(*(publish(cluster, body, LINES) for _ in range(4)))
        busy = [answer for answer in answers if answer.status_code == 503]
        assert len(busy) == 2
        assert [answer.headers["retry-after"] for answer in busy] == ["1", "1"]
        assert "room" in busy[0].json()["error"]["message"]
        assert (await publish(cluster, body, LINES)).status_code == 200  # all of it was given back


async def test_a_slow_log_tells_publishers_to_come_again(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.log, "_most_waiting_bytes", 1)
    monkeypatch.setattr(cluster.log, "_waiting_bytes", 1)
    answer = await publish(cluster, b'{"n":1}', JSON)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "behind" in answer.json()["error"]["message"]
    monkeypatch.undo()
    assert (await publish(cluster, b'{"n":1}', JSON)).status_code == 200


async def test_arguments_of_a_subscription_are_bounded(cluster: SparklessCluster) -> None:
    url = f"{cluster.url}/v1/subscriptions"
    async with httpx.AsyncClient(timeout=60, headers=headers("subscribe")) as http:
        for arguments, field in (
            ({"where": "x" * 100_000}, "arguments"),
            ({"where": msgspec.Raw(b"[" * 5000 + b"]" * 5000)}, "body"),
        ):
            body = msgspec.json.encode({"channel": "dataset/notes", "arguments": arguments})
            answer = await http.post(url, content=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["field"] == field
