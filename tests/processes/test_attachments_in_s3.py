"""A live system whose attachments lie on a real S3 server: uploaded, published, opened at a broker,
and what nothing mentions is collected."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import uuid
from pathlib import Path

import pytest

from tocsin.client import Client
from tocsin.dev.s3 import S3
from tocsin.storage.content import open_content
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

TABLES = """
CREATE DATASET kept_reports (id STRING, kind STRING, photo ATTACHMENT) PRIMARY KEY (id);
CREATE CONTINUOUS CHANNEL kept_alerts(kind STRING) AS
  SELECT r.id, r.photo FROM NEW kept_reports r WHERE r.kind = :kind;
"""


def object_of(live: System, s3: S3, data: bytes) -> Path:
    """The file that S3Proxy keeps an attachment in."""
    id = hashlib.sha256(data).hexdigest()
    bucket = live.settings.attachments.removeprefix("s3://").partition("?")[0]
    return s3.data / bucket / id[:2] / id[2:4] / id


async def test_from_an_upload_to_its_reader_and_its_end(
    live: System, s3: S3, tmp_path: Path
) -> None:
    photo, orphan = uuid.uuid4().bytes * 100_000, uuid.uuid4().bytes
    (tmp_path / "photo.png").write_bytes(photo)
    open_content(live.settings.attachments, tmp_path).put(orphan)
    forgotten = object_of(live, s3, orphan)
    os.utime(forgotten, (1, 1))  # as if it had been uploaded long ago

    token = live.token("keeper", "admin", "publish", "subscribe")
    async with Client(live.coordinator_url, cluster=live.cluster_url, token=token) as client:
        await client.sql(TABLES)
        alerts = await client.subscribe("kept_alerts", kind="flood")
        told = await client.upload(tmp_path / "photo.png")
        assert object_of(live, s3, photo).read_bytes() == photo
        await client.publish("kept_reports", {"id": "r1", "kind": "flood", "photo": told})
        async with asyncio.timeout(60):
            alert = await anext(aiter(alerts))
        assert await client.attachment(alert, "photo").read() == photo

    deadline = time.monotonic() + 60
    while forgotten.exists():
        assert time.monotonic() < deadline, "it was not collected"
        await asyncio.sleep(0.2)
    assert object_of(live, s3, photo).exists()
