"""A cluster whose attachments lie on a real S3 server, while that server comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.sparkless import sparkless
from cluster.test_attachments import PHOTO, REPORTS, Site, id_of, photo, token
from content.media import Bucket
from tocsin.client.transport import tls
from tocsin.dev.s3 import S3
from tocsin.storage.content.opening import CONFIG


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setitem(CONFIG, "retries", {"mode": "standard", "total_max_attempts": 1})
    return Bucket(s3)


@pytest.fixture(name="site")
async def _site(bucket: Bucket, tmp_path: Path) -> AsyncIterator[Site]:
    async with sparkless(tmp_path, attachments=bucket.address) as cluster:
        await cluster.create_dataset(REPORTS)
        headers = {"authorization": f"Bearer {token('publish', 'subscribe')}"}
        async with httpx.AsyncClient(
            base_url=cluster.url, headers=headers, verify=tls(), timeout=60
        ) as http:
            yield Site(cluster, http, tmp_path)


async def test_bytes_lie_in_the_bucket_alone(site: Site, bucket: Bucket) -> None:
    assert (await site.put(PHOTO)).status_code == 201
    assert (await site.put(PHOTO)).status_code == 200
    assert bucket.objects == [bucket.path(id_of(PHOTO))]
    assert site.files == []
    part = await site.get(PHOTO, range="bytes=10-19")
    assert (part.status_code, part.content) == (206, PHOTO[10:20])
    assert (await site.get(PHOTO)).content == PHOTO
    assert (await site.publish([{"key": "a", "photo": photo()}]))["accepted"] == 1


async def test_an_outage_is_told_stores_nothing_and_passes(site: Site, bucket: Bucket) -> None:
    await site.put(PHOTO)
    held = site.cluster.attachments._custody._held
    await asyncio.to_thread(bucket.server.kill)
    form: dict[str, Any] = {"record": (None, b'{"key": "b"}'), "photo": ("f.png", b"a fire")}
    records = "/v1/datasets/reports/records"
    answers = [
        await site.put(b"a fire"),
        await site.get(PHOTO),
        await site.http.post(records, json=[{"key": "x"}, {"key": "a", "photo": photo()}]),
        await site.http.post(records, files=form),
    ]
    for answer in answers:
        assert answer.status_code == 503
        told: dict[str, Any] = answer.json()["error"]
        assert (told["code"], told["field"]) == ("unavailable", "attachments")
        assert bucket.root in told["message"]
        assert "secret" not in told["message"]
    assert dict(held) == {}
    assert site.files == []
    assert (await site.http.post(records, json=[{"key": "y"}])).json()["accepted"] == 1
    assert site.records("reports") == [{"key": "y"}]

    await asyncio.to_thread(bucket.server.start)
    assert bucket.objects == [bucket.path(id_of(PHOTO))]
    assert (await site.put(b"a fire")).status_code == 201
    assert (await site.get(PHOTO)).content == PHOTO
    assert (await site.http.post(records, files=form)).json()["accepted"] == 1


async def test_the_cluster_collects_what_nothing_mentions(bucket: Bucket, tmp_path: Path) -> None:
    async with sparkless(tmp_path, attachments=bucket.address, attachment_grace_s=1.0) as cluster:
        await cluster.create_dataset(REPORTS)
        content = cluster.attachments.content
        await asyncio.to_thread(content.put, PHOTO)
        await cluster.publish_all("reports", [{"key": "a", "photo": photo()}])
        await asyncio.to_thread(content.put, b"nobody wants this")
        async with asyncio.timeout(30):
            while len(bucket.objects) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert bucket.objects == [bucket.path(id_of(PHOTO))]
