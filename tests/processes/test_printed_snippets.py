"""The SQL and Python that README and the reference print do what they say."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tocsin.client import Client
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, kind: str) -> list[str]:
    found = [body for named, body in BLOCK.findall((ROOT / page).read_text()) if named == kind]
    assert found, f"{page} prints no {kind}"
    return found


async def test_readme_asks_its_question_and_is_told(
    live: System, capsys: pytest.CaptureFixture[str]
) -> None:
    token = live.token("reader", "admin", "publish", "subscribe")
    async with Client(cluster=live.cluster_url, token=token) as admin:
        for statements in blocks("README.md", "sql"):
            await admin.sql(statements)
        (snippet,) = blocks("README.md", "python")
        snippet = snippet.replace("http://127.0.0.1:7410", live.coordinator_url)
        code = compile(snippet, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        names: dict[str, Any] = {"token": token}
        coroutine = eval(code, names)  # noqa: S307 (our own README)
        assert inspect.iscoroutine(coroutine)
        listening = asyncio.create_task(coroutine)
        record = {"id": "r1", "type": "flood", "severity": 3, "lat": 33.61, "lon": -117.79}
        printed = ""
        for _ in range(60):  # until the subscription is there and the result has come
            await admin.publish("reports", record)
            await asyncio.sleep(0.5)
            printed += capsys.readouterr().out
            if "r1" in printed:
                break
            assert not listening.done(), listening.exception()
        listening.cancel()
        assert "{'id': 'r1', 'type': 'flood', 'severity': 3}" in printed


async def test_sql_of_the_reference_runs(live: System) -> None:
    token = live.token("reader", "admin", "publish", "subscribe")
    async with Client(cluster=live.cluster_url, token=token) as admin:
        sightings, offers, quakes, vitals, visitors = blocks("docs/reference/sql.md", "sql")
        assert (await admin.sql(sightings))[-1].rows == [["heron", 1]]
        *_, by_name, by_position, by_list, described = await admin.sql(offers)
        at = by_name.columns.index("arguments")
        anything = {"any": True}
        assert by_name.rows[0][at] == {"restaurant": "R1", "food": anything, "discount": 20}
        assert by_position.rows[0][at]["discount"] == anything
        assert [row[at]["restaurant"] for row in by_list.rows] == ["R1", "R2", "R3"]
        assert dict(described.rows)["may be open"] == "restaurant, food, discount"
        *_, last, recent, routed = await admin.sql(quakes)
        for asked in (last, recent):
            marker, head = (asked.columns.index(name) for name in ("marker", "head"))
            assert asked.rows[0][marker] < asked.rows[0][head]
        assert recent.rows[0][at] == {"where": "place = 'Irvine'"}
        assert dict(routed.rows)["filters"] == 2
        *_, granted, _, roles, _, last_dropped = await admin.sql(vitals)
        assert granted.rows == [["nurses", "READ", "DATASET", "vitals"]]
        assert roles.rows == [["monitors", True], ["nurses", True]]
        assert "scopes alone decide" in last_dropped.message
        *_, sizes, used, _, _ = await admin.sql(visitors)
        assert sizes.rows == [
            ["EVERYBODY", "bytes", 1_000_000, "second"],
            ["ROLE visitors", "subscriptions", 10, "subscriber"],
        ]
        assert used.rows == [["subscriptions", 0, ""]]


def test_commands_of_the_readme_are_targets_of_make() -> None:
    for body in blocks("README.md", "console"):
        for line in body.splitlines():
            command = line.removeprefix("$ ")
            assert command.startswith("make "), command
            subprocess.run(
                [*command.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True
            )
