"""The page about attachments, as printed, on a live system: from an upload to the file that a
subscriber saved, and its Python."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from docs.test_tutorial import Page
from tocsin.client import Client
from tocsin.demo.pictures import draw
from tocsin.system import System

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "attachments.md").read_text()
PICTURE = draw("flood", "of the page")

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def own(text: str) -> str:
    """The system is shared with other tests: names of our own."""
    return re.sub(r"\b(reports|alerts)\b(?!\.sql)", r"pictured_\1", text)


def test_commands_of_the_page_do_what_it_says(live: System, tmp_path: Path) -> None:
    (tmp_path / "flood.png").write_bytes(PICTURE)
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "TOCSIN_CLUSTER_URL": live.cluster_url,
        "TOCSIN_COORDINATOR_URL": live.coordinator_url,
        "TOCSIN_TOKEN": live.token("reader", "admin", "publish", "subscribe"),
    }
    broker = next(iter(live.broker_urls.values()))
    ports = {"http://127.0.0.1:7400": live.cluster_url, "http://127.0.0.1:7420": broker}
    page = Page(tmp_path, environment, ports)
    bearer = {"authorization": f"Bearer {environment['TOCSIN_TOKEN']}"}
    before = httpx.get(f"{broker}/v1/pages", headers=bearer).json()
    try:
        page.run(own(TEXT))
    finally:
        page.stop()
        was = {name: before[name] for name in ("policy", "capacity_bytes")}
        httpx.put(f"{broker}/v1/pages", headers=bearer, json=was).raise_for_status()
    (saved,) = (tmp_path / "photos").iterdir()
    assert saved.read_bytes() == PICTURE


async def run(snippet: str, names: dict[str, Any]) -> None:
    code = compile(snippet, "attachments.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(code, names)  # noqa: S307 (our own page)
    assert inspect.iscoroutine(coroutine)
    await coroutine


async def test_python_of_the_page_reads_what_it_published(
    live: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (printed,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    publish, read = printed.replace("reports", "shown").replace("alerts", "news").split("\n\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flood.png").write_bytes(PICTURE)
    token = live.token("other", "admin", "publish", "subscribe")
    async with Client(cluster=live.cluster_url, token=token) as admin:
        await admin.sql(
            "CREATE DATASET shown (id STRING, kind STRING, photo ATTACHMENT) PRIMARY KEY (id);"
            "CREATE CONTINUOUS CHANNEL news(kind STRING) AS"
            " SELECT r.id, r.photo FROM NEW shown r WHERE r.kind = :kind"
        )
    async with Client(live.coordinator_url, token=token) as client:  # uploads through a broker
        names: dict[str, Any] = {"client": client, "Path": Path, "seen": []}
        reading = asyncio.create_task(run(f"{read}    seen.append(data); break\n", names))
        for _ in range(60):  # until the subscription is there and the result has come
            await run(publish, names)
            await asyncio.sleep(0.5)
            if reading.done():
                break
        await reading
    assert names["seen"] == [PICTURE]
    broker = next(iter(live.broker_urls.values()))
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http:
        again = await http.post(f"{broker}/v1/attachments", content=PICTURE)
        assert (again.status_code, again.json()["size"]) == (200, len(PICTURE))
        wrong = await http.put(f"{broker}/v1/attachments/{'0' * 64}", content=PICTURE)
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "id")
