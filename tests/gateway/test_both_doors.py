"""What publishers are told, and what is in the log then, is the same whichever door they take."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from cluster.sparkless import ROUTED, SECRET, SparklessCluster, sparkless
from cluster.test_fuzzed_bodies import broken
from cluster.test_poison import parquet
from gateway.doors import GatewayHere, gateway_before
from tocsin.model import Column, Dataset
from tocsin.service.tokens import mint
from tocsin.storage.log import open_reader

REPORTS = Dataset(
    "reports",
    (Column("id", "STRING"), Column("n", "BIGINT"), Column("at", "TIMESTAMP")),
    open=True,
    primary_key=("id",),
)
PHOTOS = Dataset("photos", (Column("id", "STRING"), Column("photo", "ATTACHMENT")))
JSON, LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
PARQUET = "application/vnd.apache.parquet"
GOOD, WRONG = b'{"id":"a","n":1,"mood":"grim"}', b'{"id":"b","n":"x"}'


class Doors:
    def __init__(self, cluster: SparklessCluster, gateway: GatewayHere) -> None:
        self.cluster = cluster
        self.gateway = gateway
        self.urls = (cluster.url, gateway.url)

    async def both(
        self, body: bytes, kind: str = JSON, *, dataset: str = "reports", **headers: str
    ) -> list[Any]:
        """Status, body and what came into the log, by each."""
        return [await self.by(url, body, kind, dataset, **headers) for url in self.urls]

    async def by(
        self, url: str, body: bytes, kind: str = JSON, dataset: str = "reports", **headers: str
    ) -> Any:
        before = self.cluster.log.ends()
        sent = {"authorization": f"Bearer {token()}", "content-type": kind} | headers
        async with httpx.AsyncClient(timeout=60, headers=sent) as http:
            answer = await http.post(f"{url}/v1/datasets/{dataset}/records", content=body)
        told = answer.json()
        told.pop("end", None)
        logged = {
            name: self.records(name, before[name]) for name in ("reports", "dead_letters", "photos")
        }
        return answer.status_code, told, logged

    def records(self, dataset: str, begin: int) -> list[Any]:
        end = self.cluster.log.ends()[dataset]
        lines = open_reader(self.cluster.log.address).lines(dataset, begin, end)
        decoded = [msgspec.json.decode(line) for _, line in lines]
        return [(line["r"], line.get("x")) for line in decoded]


def token(*scopes: str, subject: str = "ann") -> str:
    return mint(SECRET, subject, scopes or ("publish",), expires_s=600, now=time.time())


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Doors]:
    async with sparkless(directory, request_records=50) as cluster:
        for dataset in (REPORTS, PHOTOS, ROUTED):
            await cluster.create_dataset(dataset)
        async with gateway_before(cluster.url, request_records=50) as gateway:
            yield Doors(cluster, gateway)


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    async with opened(tmp_path) as doors:
        yield doors


BODIES: dict[str, tuple[bytes, str]] = {
    "a record": (GOOD, JSON),
    "records of which some fit": (b"[" + GOOD + b"," + WRONG + b",7]", JSON),
    "records of which none fits": (WRONG + b"\n" + WRONG, LINES),
    "lines": (GOOD + b"\n\nnonsense\n" + GOOD, LINES),
    "a table": (b"id,n,at\na,1,\nb,x,\nc,3,2026-01-02T03:04:05Z\n", CSV),
    "Parquet": (parquet(pa.table({"id": ["a", None], "n": [1, 2]})), PARQUET),
    "nothing": (b"", JSON),
    "no records": (b"[]", JSON),
    "no JSON": (b"{", JSON),
    "no Parquet": (b"PAR1", PARQUET),
    "too many": (b"{}\n" * 51, LINES),
    "a kind that nobody reads": (GOOD, "application/pdf"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_gets_the_same_answer_and_comes_into_the_log_alike(
    doors: Doors, name: str
) -> None:
    direct, handed_on = await doors.both(*BODIES[name])
    assert handed_on == direct


@pytest.mark.parametrize("dataset", ["unknown", "dead_letters", "photos", "no%20name", "Ω"])
async def test_a_dataset_gets_the_same_answer(doors: Doors, dataset: str) -> None:
    direct, handed_on = await doors.both(GOOD, dataset=dataset)
    assert handed_on == direct


async def test_any_body_is_told_and_logged_alike(doors: Doors) -> None:
    drawn: list[bytes] = []

    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    @given(body=broken())
    def draw(body: bytes) -> None:
        drawn.append(body)

    draw()
    for body in drawn:
        for kind in (JSON, LINES, CSV):
            direct, handed_on = await doors.both(body, kind)
            assert handed_on == direct, (kind, body)


async def test_a_key_is_known_again_at_the_other_door(doors: Doors) -> None:
    body = b"[" + GOOD + b"," + WRONG + b"]"
    first = await doors.by(doors.gateway.url, body, **{"idempotency-key": "k"})
    again = await doors.by(doors.cluster.url, body, **{"idempotency-key": "k"})
    once_more = await doors.by(doors.gateway.url, body, **{"idempotency-key": "k"})
    other = await doors.by(doors.gateway.url, body, **{"idempotency-key": "l"})
    assert (first[0], first[1]["accepted"], len(first[2]["reports"])) == (200, 1, 1)
    assert again[:2] == once_more[:2] == first[:2]
    assert again[2]["reports"] == once_more[2]["reports"] == []
    assert len(other[2]["reports"]) == 1
    direct, handed_on = await doors.both(GOOD, **{"idempotency-key": "x" * 256})
    assert handed_on == direct
    assert direct[0] == 400


@pytest.mark.parametrize("scopes", [("subscribe",), ("admin",)])
async def test_who_may_not_publish_hears_the_same(doors: Doors, scopes: tuple[str, ...]) -> None:
    for given_token in (token(*scopes), "no token", "x"):
        answers = []
        for url in doors.urls:
            headers = {"authorization": f"Bearer {given_token}"}
            async with httpx.AsyncClient(headers=headers) as http:
                answer = await http.post(f"{url}/v1/datasets/reports/records", content=GOOD)
            answers.append((answer.status_code, answer.json()))
        assert answers[0] == answers[1]
        assert answers[0][0] in (401, 403)


async def test_routed_records_come_through_as_they_do_directly(doors: Doors) -> None:
    ends = []
    for url in doors.urls:
        status, told, _ = await doors.by(url, b'{"key":"a","n":1}', dataset=ROUTED.name)
        assert (status, told["accepted"]) == (200, 1)
        ends.append(doors.cluster.log.ends()[ROUTED.name])
    assert ends[1] > ends[0]


async def test_every_other_call_is_the_clusters(doors: Doors) -> None:
    asked: list[tuple[str, str, bytes | None]] = [
        ("GET", "/v1/datasets", None),
        ("GET", "/v1/datasets/reports?x=%20y", None),
        ("GET", "/v1/datasets/nothing", None),
        ("GET", "/v1/datasets/%C3%A4%20%25x", None),
        ("GET", "/v1/datasets/a%2Fb", None),
        ("GET", "/v1/datasets/reports/filter?where=n%20%3D%201%2B1", None),
        ("POST", "/v1/statements", b'{"sql":"SHOW DATASETS"}'),
        ("POST", "/v1/statements", b'{"sql":"nonsense"}'),
        ("GET", "/v1/subscriptions", None),
        ("DELETE", "/v1/subscriptions/1", None),
        ("GET", "/v1/nothing", None),
        ("PATCH", "/v1/datasets", b"{}"),
    ]
    headers = {"authorization": f"Bearer {token('admin', 'publish', 'subscribe')}"}
    async with httpx.AsyncClient(headers=headers) as http:
        for method, path, body in asked:
            direct, passed = [
                await http.request(method, url + path, content=body) for url in doors.urls
            ]
            assert passed.status_code == direct.status_code, path
            assert passed.content == direct.content, path
            kept = {"content-type", "content-length", "tocsin-protocol", "retry-after"}
            for name in kept:
                assert passed.headers.get_list(name) == direct.headers.get_list(name), (path, name)


async def test_attachments_pass_through_in_both_directions(doors: Doors) -> None:
    everything = token("admin", "publish", "subscribe", "broker")
    headers = {"authorization": f"Bearer {everything}"}
    content = bytes(range(256)) * 4096
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        url = f"{doors.gateway.url}/v1/attachments"
        uploaded = await http.post(url, content=content, headers={"content-type": "image/png"})
        assert uploaded.status_code == 201, uploaded.text
        attachment = uploaded.json()
        whole = await http.get(f"{url}/{attachment['id']}")
        assert whole.content == content
        part = await http.get(f"{url}/{attachment['id']}", headers={"range": "bytes=1-3"})
        assert (part.status_code, part.content) == (206, content[1:4])
        seen = await http.head(f"{url}/{attachment['id']}")
        assert int(seen.headers["content-length"]) == len(content)
        record = msgspec.json.encode({"id": "a", "photo": attachment})
        status, told, logged = await doors.by(doors.gateway.url, record, dataset="photos")
        assert (status, told["accepted"]) == (200, 1), told
        assert logged["photos"][0][0]["photo"]["id"] == attachment["id"]
        form: Any = {
            "record": (None, '{"id": "b"}', JSON),
            "photo": ("p.png", content, "image/png"),
        }
        records = f"{doors.gateway.url}/v1/datasets/photos/records"
        together = await http.post(records, files=form)
        assert (together.status_code, together.json()["accepted"]) == (200, 1), together.text


async def test_the_stream_of_routed_records_passes_as_it_comes(doors: Doors) -> None:
    headers = {"authorization": f"Bearer {token('broker', subject='broker_1')}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=10) as http,
        http.stream("GET", f"{doors.gateway.url}/v1/routed") as answer,
    ):
        lines = answer.aiter_lines()
        assert answer.status_code == 200
        await doors.by(doors.gateway.url, b'{"key":"a","n":41}', dataset=ROUTED.name)
        async for line in lines:
            if '"n":41' in line:
                break
    async with httpx.AsyncClient() as http:
        for _ in range(100):
            told = (await http.get(f"{doors.gateway.url}/metrics")).text
            if "\ntocsin_gateway_passed_on 0.0" in told:
                return
    raise AssertionError("a call that has ended still counts")
